// Overview: is it well, how much, since when, where.
import { h } from "../dom.js";
export const screen = {
  figures: true,
  open({ root }) {
    root.append(h("p", {}, "…"));
    return {};
  },
};
