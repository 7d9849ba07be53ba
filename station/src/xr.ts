/** The headset: a session, its hands and head as devices, and the board and picture around the operator. */

import {
  BufferGeometry,
  Euler,
  Group,
  Line,
  LineBasicMaterial,
  Quaternion,
  Raycaster,
  type Scene,
  Vector3,
  type WebGLRenderer,
} from "three";
import { beyondDead } from "./desktop";
import type { CommandName } from "./menu";
import type { Pane } from "./pane";
import { type Panel, PANEL_DISTANCE } from "./panel";
import { type Devices, type Hand, SIDES, type Side } from "./protocol";
import { handOf, placeOf, pressed, stick } from "./xr_hands";

/** [rad] below the eyes' height at which the board stands; by which the head turns before it comes along. */
const BELOW = (38 * Math.PI) / 180;
const COMES_ALONG = (35 * Math.PI) / 180;
/** [rad] by which the head is bent when somebody looks at the board. */
const LOOKS_DOWN = (18 * Math.PI) / 180;
/** [s] in which the picture comes along with the head; at once where somebody asked for less motion. */
const EASING = 0.12;
/** Of the drawing, where no camera shows anything: before the operator [m], below the eyes [m], and its scale. */
const DRAWING = { away: 0.9, below: 1.25, scale: 1.2 };
const BUTTON_MENU = 4;
const BUTTON_STOP = 5;

export interface XrEvents {
  press(name: CommandName): void;
  began(): void;
  ended(): void;
  eyes(distance: number): void;
}

/** One controller's ray, and what its trigger and clutch did last. */
class Pointer {
  readonly line: Line;
  hovered: CommandName | null = null;
  pressing = false;
  clutch = false;
  trigger = 0;
  buttons = new Set<number>();

  constructor() {
    const geometry = new BufferGeometry().setFromPoints([new Vector3(), new Vector3(0, 0, -1)]);
    this.line = new Line(geometry, new LineBasicMaterial({ color: 0xffd54a, transparent: true, depthTest: false }));
    this.line.renderOrder = 4;
    this.line.visible = false;
  }

  /** Whether a button has just been pressed. */
  isNew(source: XRInputSource, button: number): boolean {
    const down = pressed(source, button) > 0.5;
    const before = this.buttons.has(button);
    if (down) this.buttons.add(button);
    else this.buttons.delete(button);
    return down && !before;
  }
}

export class Xr {
  private session: XRSession | null = null;
  private pointers: Record<Side, Pointer> = { right: new Pointer(), left: new Pointer() };
  private sources: Partial<Record<Side, XRInputSource>> = {};
  private around = new Group();
  private yaw = 0;
  private isPlaced = false;
  /** Whether the operator looks at the board. */
  looksDown = false;
  private raycaster = new Raycaster();
  private readonly calm = matchMedia("(prefers-reduced-motion: reduce)");

  constructor(
    private readonly renderer: WebGLRenderer,
    scene: Scene,
    private readonly drawing: Group,
    private readonly pane: Pane,
    private readonly panel: Panel,
    private readonly events: XrEvents,
  ) {
    this.around.add(panel.mesh);
    // Not the session's own event, before which the renderer has not yet put its canvas back.
    renderer.xr.addEventListener("sessionend", () => this.ended());
    this.around.visible = pane.group.visible = false;
    scene.add(this.around, pane.group, this.pointers.right.line, this.pointers.left.line);
  }

  get isOn(): boolean {
    return this.session !== null;
  }

  /** Why the browser has no headset; "": it has one. */
  static async missing(): Promise<string> {
    if (!isSecureContext) return "VR needs encryption: open the page by https, or on the robot's own machine.";
    if (!navigator.xr) return "This browser knows no headset: use the headset's own browser.";
    const works = await navigator.xr.isSessionSupported("immersive-vr").catch(() => false);
    return works ? "" : "The browser finds no headset.";
  }

  async enter(): Promise<void> {
    const xr = navigator.xr as XRSystem;
    const session = await xr.requestSession("immersive-vr", {
      requiredFeatures: ["local-floor"],
      optionalFeatures: ["hand-tracking"],
    });
    this.session = session;
    this.isPlaced = false;
    session.addEventListener("selectstart", (event) => this.onSelect(event.inputSource, true));
    session.addEventListener("selectend", (event) => this.onSelect(event.inputSource, false));
    this.renderer.xr.setReferenceSpaceType("local-floor");
    await this.renderer.xr.setSession(session);
    this.around.visible = this.pane.group.visible = true;
    this.events.began();
  }

  leave(): void {
    void this.session?.end();
  }

  /** What the devices say in this frame; null: the headset sleeps, or shows something else. */
  read(frame: XRFrame, seconds: number): Devices | null {
    const room = this.renderer.xr.getReferenceSpace();
    if (!room || !this.session || this.session.visibilityState !== "visible") return null;
    const viewer = frame.getViewerPose(room);
    const head = placeOf(viewer);
    if (viewer && head) {
      this.place(new Vector3(...head.p), new Quaternion(...head.q), seconds);
      this.tellEyes(viewer);
    }
    this.sources = {};
    for (const source of this.session.inputSources) {
      if (source.handedness !== "none" && source.targetRayMode === "tracked-pointer") this.sources[source.handedness] = source;
    }
    const hands = { right: this.readHand("right", frame, room), left: this.readHand("left", frame, room) };
    return { head, ...hands, stick: this.readSticks() };
  }

  get hovered(): CommandName | null {
    return this.pointers.right.hovered ?? this.pointers.left.hovered;
  }

  pulse(side: Side, strength: number, ms: number): void {
    const actuators = this.sources[side]?.gamepad as { hapticActuators?: { pulse(s: number, ms: number): unknown }[] } | undefined;
    actuators?.hapticActuators?.[0]?.pulse(strength, ms);
  }

  // -- hands ----------------------------------------------------------------------------------------

  private readHand(side: Side, frame: XRFrame, room: XRReferenceSpace): Hand | null {
    const pointer = this.pointers[side];
    const source = this.sources[side];
    pointer.line.visible = false;
    pointer.hovered = null;
    if (!source) {
      pointer.clutch = pointer.pressing = false;
      return null;
    }
    if (pointer.isNew(source, BUTTON_STOP)) this.events.press("stop");
    if (pointer.isNew(source, BUTTON_MENU)) this.panel.isOpen = !this.panel.isOpen;
    const hand = handOf(source, frame, room, pointer.clutch);
    pointer.clutch = hand?.clutch ?? false;
    if (!pointer.clutch) this.point(pointer, source, frame, room);
    if (!hand) return null;
    // A trigger that presses the board does not move the gripper.
    if (pointer.hovered || pointer.pressing) return { ...hand, trigger: pointer.trigger };
    pointer.trigger = hand.trigger;
    return hand;
  }

  /** Where a ray meets the board. */
  private point(pointer: Pointer, source: XRInputSource, frame: XRFrame, room: XRReferenceSpace): void {
    const ray = placeOf(frame.getPose(source.targetRaySpace, room));
    if (!ray) return;
    const origin = new Vector3(...ray.p);
    const direction = new Vector3(0, 0, -1).applyQuaternion(new Quaternion(...ray.q));
    this.raycaster.set(origin, direction);
    const hit = this.raycaster.intersectObject(this.panel.mesh)[0];
    pointer.line.position.copy(origin);
    pointer.line.quaternion.set(...ray.q);
    pointer.line.scale.setScalar(hit?.distance ?? 0.4);
    pointer.line.visible = true;
    pointer.hovered = this.panel.at(hit?.uv);
  }

  private onSelect(source: XRInputSource, begins: boolean): void {
    if (source.handedness === "none") return;
    const pointer = this.pointers[source.handedness];
    if (!begins) pointer.pressing = false;
    else if (pointer.hovered) {
      pointer.pressing = true;
      this.events.press(pointer.hovered);
    }
  }

  /** Left stick: drive; right stick: turn. With one stick alone: forward and turn, or sideways while it is pressed in. */
  private readSticks(): [number, number, number] {
    const [leftX, leftY] = stick(this.sources.left).map(beyondDead) as [number, number];
    const [rightX, rightY] = stick(this.sources.right).map(beyondDead) as [number, number];
    const right = this.sources.right;
    if (this.sources.left?.gamepad && !this.sources.left.hand) return [-leftY, -leftX, -rightX];
    const sideways = right ? pressed(right, 3) > 0.5 : false;
    return [-rightY, sideways ? -rightX : 0, sideways ? 0 : -rightX];
  }

  // -- around the operator ------------------------------------------------------------------------------

  private place(head: Vector3, looking: Quaternion, seconds: number): void {
    const { x: pitch, y: yaw } = new Euler().setFromQuaternion(looking, "YXZ");
    this.looksDown = pitch < -LOOKS_DOWN;
    const upright = new Quaternion().setFromAxisAngle(new Vector3(0, 1, 0), yaw);
    if (!this.isPlaced) {
      const ahead = new Vector3(0, -DRAWING.below, -DRAWING.away).applyQuaternion(upright);
      this.drawing.position.copy(head).add(ahead);
      this.drawing.quaternion.copy(upright);
      this.drawing.scale.setScalar(DRAWING.scale);
      this.pane.group.quaternion.copy(looking);
    }
    const turned = Math.abs(Math.atan2(Math.sin(yaw - this.yaw), Math.cos(yaw - this.yaw)));
    if (!this.isPlaced || turned > COMES_ALONG) {
      this.yaw = yaw;
      this.around.quaternion.copy(upright);
    }
    this.isPlaced = true;
    this.around.position.copy(head);
    this.panel.mesh.position.set(0, -PANEL_DISTANCE * Math.sin(BELOW), -PANEL_DISTANCE * Math.cos(BELOW));
    this.panel.mesh.rotation.set(-BELOW, 0, 0);
    this.pane.group.position.copy(head);
    const share = this.calm.matches ? 1 : 1 - Math.exp(-seconds / EASING);
    this.pane.group.quaternion.slerp(looking, share);
  }

  private tellEyes(viewer: XRViewerPose): void {
    const [left, right] = viewer.views;
    if (!left || !right) return;
    const a = left.transform.position;
    const b = right.transform.position;
    this.events.eyes(Math.hypot(a.x - b.x, a.y - b.y, a.z - b.z));
  }

  private ended(): void {
    this.session = null;
    this.sources = {};
    this.around.visible = this.pane.group.visible = false;
    for (const side of SIDES) {
      this.pointers[side].line.visible = false;
      this.pointers[side].clutch = this.pointers[side].pressing = false;
    }
    this.drawing.position.set(0, 0, 0);
    this.drawing.quaternion.identity();
    this.drawing.scale.setScalar(1);
    this.events.ended();
  }
}
