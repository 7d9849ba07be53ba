/** Puts the parts together; what each of them does is in its own file. */

import { PerspectiveCamera, Scene, WebGLRenderer } from "three";
import type { Choice } from "./bindings";
import { Cues, padPulse, strongest } from "./cues";
import { Desktop } from "./desktop";
import { linkLine, noticeOf } from "./halts";
import { Banner } from "./banner";
import { HeadCentre } from "./head";
import { Link } from "./link";
import { LiveSign } from "./live_sign";
import { Menu, type CommandName } from "./menu";
import { find, hint, Page } from "./page";
import { Pane } from "./pane";
import { Panel } from "./panel";
import type { Devices, RobotMessage, Role } from "./protocol";
import { Sampler } from "./sampler";
import { Schematic } from "./scene";
import { Ear, Mouth } from "./sound";
import { drives, Store } from "./store";
import { TrainingPage } from "./training_page";
import { eyesOf, Video } from "./video";
import { Viewpoint } from "./viewpoint";
import { Xr } from "./xr";

/** [ms] between two looks at what has changed by mere time: silence, clocks of the training. */
const LOOK_PERIOD = 200;
/** The eyes, without which nobody steers; all others are side cameras. */
const EYES = 2;

const store = new Store();
const link = new Link(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/link`, {
  phase: (phase, linkSentence, linkCode) => {
    if (phase !== "in") {
      menu.hush("Your microphone is off: the link is gone.");
      video.end();
      cues.clear();
      desktop.letGo();
    }
    // What was known of the robot is no longer so; what it is called still is.
    store.change({ phase, linkSentence, linkCode, ...(phase === "in" ? {} : { status: null }) });
    if (phase === "out") store.change({ stopWaits: false });
  },
  said: hear,
});
const video = new Video({
  say: (message) => link.say(message),
  pictures: (pictures) => {
    store.change({ pictures });
    page.showPictures(pictures, video.elements, eyesOf(pictures).left);
    pane.use(pictures, video.elements);
  },
  channel: (fast) => store.change({ fast }),
  sound: (track) => ear.use(track),
});
const ear = new Ear(() => store.change({ pressed: "The browser holds the sound back: press Listen twice." }));
const mouth = new Mouth(() => menu.hush("Your microphone is off: it is gone, or the browser has closed it."));
const headCentre = new HeadCentre();
const sampler = new Sampler(link, video);
const cues = new Cues(find("cue-frame"), (side, strength, ms) => {
  if (xr?.isOn) xr.pulse(side, strength, ms);
  else padPulse(side, strength, ms);
});
const menu = new Menu(store, link, {
  letGo: () => desktop.letGo(),
  face: showFace,
  cameras: beginVideo,
  speak: async () => {
    if (!video.canSpeak) return "There is no connection for your voice yet: press Speak again in a moment.";
    const why = await mouth.open();
    video.speak(mouth.track);
    return why;
  },
  hush: () => {
    video.speak(null);
    mouth.close();
  },
  turned: () => headCentre.turned,
  training: () => (xr?.isOn && training.training ? training.next("confirmed") : training.toggle()),
  vr: () => void toggleVr(),
});
const page = new Page({
  press,
  join: (name: string, token: string, role: Role) => {
    cues.wake();
    link.join({ name, token, role });
  },
  leave: () => link.leave(),
  clutch: () => {
    desktop.latched = !desktop.latched && drives(store.now);
  },
  again: () => store.now.texture && cues.texture(store.now.texture),
  volume: (volume) => (ear.volume = volume),
  eyesApart: (distance) => menu.eyesApart(distance),
});
const training = new TrainingPage(
  find("training"),
  find("training-body"),
  store,
  () => page.name.value,
  (sentence) => page.say(sentence),
);

const stage = find("stage");
const desktop = new Desktop(stage, { press });
const viewpoint = new Viewpoint();
/** Of the headset, which moves it. */
const eyes = new PerspectiveCamera(50, 1, 0.05, 30);
const scene = new Scene();
const schematic = new Schematic();
const pane = new Pane();
const panel = new Panel();
const banner = new Banner();
const liveSign = new LiveSign();
scene.add(schematic.group);
pane.group.add(banner.mesh, liveSign.mesh);
const renderer = makeRenderer();
const xr = renderer && makeXr(renderer);
let face: MediaStream | null = null;
let devices: Devices | null = null;
let isStale = true;
let before = performance.now();

// -- what comes from the robot ----------------------------------------------------------------------

function hear(message: RobotMessage): void {
  switch (message.type) {
    case "welcome":
      store.change({ welcome: message, silence: 0, refused: null, status: null, eyesRefused: "", headYaw: 0 });
      menu.hush("Your microphone is off: press Speak to be heard again.");
      menu.linkIsBack();
      beginVideo();
      break;
    case "status":
      store.change({ status: message, silence: 0, rtt: link.clock.rtt });
      schematic.show(message);
      cues.show(message);
      isStale = true;
      break;
    case "refused":
      store.change({ refused: { ...message, at: performance.now() } });
      menu.refused(message);
      break;
    case "operator":
      store.change({ operator: message.name });
      break;
    case "texture":
      store.change({ texture: message });
      cues.texture(message);
      break;
    case "answer":
      video.answer(message.sdp);
      break;
  }
}

function beginVideo(): void {
  const { welcome, sideCameras, listening } = store.now;
  const streams = welcome?.streams ?? [];
  video.begin({
    streams: sideCameras ? streams : streams.slice(0, EYES),
    sound: listening,
    face,
    voice: welcome?.role === "operator",
  });
}

async function showFace(on: boolean): Promise<boolean> {
  for (const track of face?.getTracks() ?? []) track.stop();
  face = null;
  if (on) {
    const wanted = { video: { width: 320, height: 240, frameRate: 15 } };
    face = (await navigator.mediaDevices?.getUserMedia(wanted).catch(() => null)) ?? null;
    if (!face) return false;
  }
  beginVideo();
  return true;
}

// -- what comes from the operator ---------------------------------------------------------------------

function press(name: CommandName | Choice): void {
  switch (name) {
    case "choose_right":
    case "choose_left":
    case "choose_both":
      desktop.choose(name);
      break;
    case "view":
      viewpoint.next();
      isStale = true;
      break;
    case "help":
      page.toggleHelp();
      break;
    default:
      menu.press(name);
  }
}

async function toggleVr(): Promise<void> {
  if (xr?.isOn) {
    xr.leave();
    return;
  }
  const missing = xr ? await Xr.missing() : "This browser draws no 3D (WebGL is off), so that it cannot show VR.";
  if (missing) store.change({ pressed: missing });
  else await xr?.enter().catch((error: unknown) => store.change({ pressed: `VR did not begin: ${String(error)}` }));
}

// -- what is drawn ------------------------------------------------------------------------------------

function makeRenderer(): WebGLRenderer | null {
  try {
    const made = new WebGLRenderer({ canvas: find<HTMLCanvasElement>("scene"), antialias: true, alpha: true });
    made.xr.enabled = true;
    made.setPixelRatio(Math.min(devicePixelRatio, 2));
    return made;
  } catch {
    return null; // buttons, video and keys work without
  }
}

function makeXr(on: WebGLRenderer): Xr {
  return new Xr(on, scene, schematic.group, pane, panel, {
    press,
    began: () => {
      desktop.letGo();
      store.change({ inVr: true });
    },
    ended: () => {
      store.change({ inVr: false });
      fit();
    },
    eyes: (distance) => {
      if (Math.abs(distance - (store.now.eyes ?? 0)) > 1e-4) store.change({ eyes: distance });
    },
  });
}

function fit(): void {
  const canvas = find<HTMLCanvasElement>("scene");
  const { clientWidth: width, clientHeight: height } = canvas;
  if (!renderer || xr?.isOn || !width || !height) return;
  renderer.setSize(width, height, false);
  viewpoint.camera.aspect = width / height;
  viewpoint.camera.updateProjectionMatrix();
  isStale = true;
}

function drawVr(): void {
  const known = store.now;
  const notice = noticeOf(known, performance.now());
  panel.draw({ known, notice, link: linkLine(known), training: training.line, hovered: xr?.hovered ?? null });
  pane.update(strongest(known.status));
  banner.draw(notice, training.line, xr?.looksDown ?? false);
  liveSign.show(known.speaking);
  schematic.group.visible = !pane.hasPictures;
}

/** One step, at the rate of whatever shows the page; it ceases where nobody sees it, and the robot holds. */
function step(now: number, frame?: XRFrame): void {
  const seconds = Math.min(0.1, Math.max(0, (now - before) / 1000));
  before = now;
  const isVr = xr?.isOn ?? false;
  devices = isVr ? (frame ? (xr?.read(frame, seconds) ?? null) : null) : desktop.read(seconds);
  const isDriving = drives(store.now);
  if (devices) sampler.send(devices, isDriving);
  if (devices && isDriving) headCentre.say(devices, store.now.welcome?.session ?? "");
  if (!isVr) {
    page.showHands(desktop.chosen, desktop.isClutched && isDriving, isDriving);
    schematic.group.visible = true;
  } else drawVr();
  if (renderer && (isVr || isStale)) {
    isStale = false;
    renderer.setClearColor(0x05080a, isVr ? 1 : 0);
    renderer.render(scene, isVr ? eyes : viewpoint.camera);
  }
}

function look(): void {
  if (link.silence !== store.now.silence) store.change({ silence: link.silence });
  const known = store.now;
  if (training.training?.observe(known, devices)) page.say("Done.");
  training.draw();
  page.showSound(known, ear, mouth.level);
  page.show(known, noticeOf(known, performance.now()));
  const words = hint(known, desktop.chosen, desktop.isClutched);
  const line = find("stage-hint");
  if (line.textContent !== words) line.textContent = words;
}

// Nobody is recorded who does not see that the microphone is live.
document.addEventListener("visibilitychange", () => {
  if (document.hidden && !store.now.inVr) menu.hush("Your microphone is off: the page was not seen.");
});
store.onChange((known) => page.show(known, noticeOf(known, performance.now())));
setInterval(look, LOOK_PERIOD);
new ResizeObserver(fit).observe(find("scene"));
look();
if (renderer) renderer.setAnimationLoop(step);
else {
  const again = (now: number): void => {
    step(now);
    requestAnimationFrame(again);
  };
  requestAnimationFrame(again);
}
