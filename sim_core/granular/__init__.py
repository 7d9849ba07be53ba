"""Loose matter: grains and rocks in contact with each other and with tools that move."""
