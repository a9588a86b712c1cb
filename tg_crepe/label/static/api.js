// What is asked of the server and told to it. Names of files and classes are text: they are only ever set as textContent.
const token = document.querySelector("meta[name=page-token]").content;
export const tab = crypto.randomUUID();

export class Refused extends Error {}

async function read(response) {
  if (response.status === 403) throw new Refused("the server was started anew: open the address that it has printed");
  const body = await response.json();
  if (!response.ok) throw Object.assign(new Error(body.error || response.statusText), { told: true });
  return body;
}

export async function get(path) {
  return read(await fetch(path, { credentials: "same-origin" }));
}

export async function post(path, body) {
  return read(await fetch(path, {
    method: "POST", credentials: "same-origin", body: JSON.stringify(body),
    headers: { "Content-Type": "application/json", "X-Page-Token": token },
  }));
}

// What changes something goes out one after the other, in the order in which it was done. Each has a name of its own, so
// that one that is sent again, since nobody knows whether it arrived, is written once.
const waiting = [];
let busy = false;
let onChange = () => {};
export const unsaved = () => waiting.length;
export function watchSaving(callback) { onChange = callback; }

// What lists items without an answer asks when all answers have arrived, or the last one would be on the list.
export async function settled() {
  while (waiting.length) await waiting[waiting.length - 1].over;
}

export function change(path, body) {
  const one = { path, body: { ...body, request: crypto.randomUUID() } };
  const answer = new Promise((done, failed) => { Object.assign(one, { done, failed }); });
  one.over = answer.catch(() => {});
  waiting.push(one);
  onChange(null);
  send();
  return answer;
}

async function send() {
  if (busy) return;
  busy = true;
  while (waiting.length) {
    const { path, body, done, failed } = waiting[0];
    try {
      const answer = await post(path, body);
      waiting.shift();
      onChange(null);
      done(answer);
    } catch (error) {
      if (error.told) {
        waiting.shift();
        onChange(null);
        failed(error);
      } else {
        onChange(error);
        await new Promise((again) => setTimeout(again, 1000));
      }
    }
  }
  busy = false;
}
