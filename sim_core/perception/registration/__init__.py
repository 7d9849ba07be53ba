"""Fitting one surface to points of another: `cloud` (points and normals), `rigid`, `nonrigid`."""
