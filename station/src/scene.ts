/**
 * The robot as far as its status tells: base, end effectors, targets and what ties them together.
 *
 * The status names frames and no shapes, and the live view's shapes travel by a protocol of its own, on another port. So this
 * is a drawing of frames at their true places, which serves every robot, and not a picture of one.
 */

import {
  AmbientLight,
  ArrowHelper,
  AxesHelper,
  BufferGeometry,
  CanvasTexture,
  CircleGeometry,
  ConeGeometry,
  DirectionalLight,
  DoubleSide,
  GridHelper,
  Group,
  Line,
  LineBasicMaterial,
  Matrix4,
  Mesh,
  MeshBasicMaterial,
  MeshLambertMaterial,
  OctahedronGeometry,
  RingGeometry,
  SphereGeometry,
  Sprite,
  SpriteMaterial,
  Vector3,
} from "three";
import { type Place, SIDES, type Side, type Status } from "./protocol";

export const COLOURS: Record<Side, number> = { right: 0x4fc3f7, left: 0xffb74d };
/** Of the arrow of the base's velocity [m per m/s]. */
const ARROW = 2.5;
/** [m] from the middle of the base to its edge, in the drawing. */
const BASE = 0.25;

/** The robot's axes (x forward, y left, z up) in those of the room (x right, y up, z backward). */
export const ROOM_FROM_ROBOT = new Matrix4().set(0, -1, 0, 0, 0, 0, 1, 0, -1, 0, 0, 0, 0, 0, 0, 1);

class ArmDrawing {
  readonly group = new Group();
  private effector = new Group();
  private target = new Group();
  private tie: Line;
  private drop: Line;
  private ball: Mesh<SphereGeometry, MeshLambertMaterial>;
  private ring: Mesh;

  constructor(side: Side) {
    const colour = COLOURS[side];
    this.ball = new Mesh(new SphereGeometry(0.035, 20, 14), new MeshLambertMaterial({ color: colour }));
    this.ring = new Mesh(
      new RingGeometry(0.055, 0.07, 32),
      new MeshBasicMaterial({ color: 0xffffff, side: DoubleSide }),
    );
    this.effector.add(this.ball, new AxesHelper(0.14), label(side === "right" ? "R" : "L", colour), this.ring);
    const wire = new MeshBasicMaterial({ color: colour, wireframe: true });
    this.target.add(new Mesh(new OctahedronGeometry(0.05), wire), new AxesHelper(0.08));
    this.tie = line(0xffffff);
    this.drop = line(0x5b6d7a);
    this.group.add(this.effector, this.target, this.tie, this.drop);
  }

  show(effector: Place, target: Place, clutched: boolean): void {
    put(this.effector, effector);
    put(this.target, target);
    this.ring.visible = clutched;
    this.ball.material.emissive.setHex(clutched ? 0x335522 : 0);
    const [x, y] = effector.p;
    stretch(this.tie, effector.p, target.p);
    stretch(this.drop, effector.p, [x, y, 0]);
  }
}

export class Schematic {
  /** In the room's axes, with the robot's base at its origin. */
  readonly group = new Group();
  private robot = new Group();
  private arms = SIDES.map((side) => new ArmDrawing(side));
  private velocity = new ArrowHelper(new Vector3(1, 0, 0), new Vector3(0, 0, 0.02), 0.001, 0x7be495, 0.08, 0.06);

  constructor() {
    const grid = new GridHelper(4, 16, 0x8aa0b0, 0x34434f);
    const disc = new Mesh(new CircleGeometry(BASE, 40), new MeshBasicMaterial({ color: 0x2c4352, side: DoubleSide }));
    const nose = new Mesh(new ConeGeometry(0.07, 0.16, 20), new MeshBasicMaterial({ color: 0xcfd8dc }));
    disc.position.z = 0.004;
    nose.position.set(BASE + 0.08, 0, 0.01);
    nose.rotation.z = -Math.PI / 2;
    this.robot.add(disc, nose, this.velocity, ...this.arms.map((arm) => arm.group));
    this.robot.quaternion.setFromRotationMatrix(ROOM_FROM_ROBOT);
    for (const arm of this.arms) arm.group.visible = false; // until somebody says where they are
    this.velocity.visible = false;
    const sun = new DirectionalLight(0xffffff, 1.6);
    sun.position.set(1, 3, 2);
    this.group.add(grid, this.robot, new AmbientLight(0xffffff, 1.2), sun);
  }

  show(status: Status): void {
    this.arms.forEach((arm, i) => {
      const effector = status.effectors[i];
      const target = status.targets[i];
      arm.group.visible = Boolean(effector && target && status.arm_mode[i] !== "absent" && status.arm_mode[i] !== "");
      if (effector && target) arm.show(effector, target, status.clutched[i] ?? false);
    });
    const [forward, left] = status.base_velocity.map((value) => value ?? 0);
    const way = new Vector3(forward, left, 0);
    const speed = way.length();
    this.velocity.visible = speed > 0.005;
    if (speed > 0.005) {
      this.velocity.setDirection(way.normalize());
      this.velocity.setLength(BASE + ARROW * speed, 0.08, 0.06);
    }
  }
}

function put(group: Group, place: Place): void {
  group.position.set(...place.p);
  group.quaternion.set(...place.q);
}

function line(colour: number): Line {
  const geometry = new BufferGeometry().setFromPoints([new Vector3(), new Vector3(0, 0, 1)]);
  const made = new Line(geometry, new LineBasicMaterial({ color: colour }));
  made.frustumCulled = false;
  return made;
}

function stretch(which: Line, from: number[], to: number[]): void {
  const position = which.geometry.getAttribute("position");
  position.setXYZ(0, from[0] ?? 0, from[1] ?? 0, from[2] ?? 0);
  position.setXYZ(1, to[0] ?? 0, to[1] ?? 0, to[2] ?? 0);
  position.needsUpdate = true;
}

function label(text: string, colour: number): Sprite {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 64;
  const context = canvas.getContext("2d");
  if (context) {
    context.font = "700 52px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillStyle = `#${colour.toString(16).padStart(6, "0")}`;
    context.fillText(text, 32, 34);
  }
  const sprite = new Sprite(new SpriteMaterial({ map: new CanvasTexture(canvas), depthTest: false }));
  sprite.scale.setScalar(0.1);
  sprite.center.set(0.5, -0.35);
  return sprite;
}
