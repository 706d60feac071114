import type { Store } from "../index.js";

export interface FileStore extends Store {}
/** A store in one file, for programs on Node. */
export class FileStore {
  private constructor();
  static open(path: string): Promise<FileStore>;
}
