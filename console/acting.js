// Another connection, which acts for a user.
//
// Owns: how it is made. Promises: the same key and options as the console's own connection. Called by what is loaded
// after the first view.

import { Client } from "./client/client.js";
import { options, place } from "./server.js";

/** The client of that user; close it after use. */
export const as = (user) => new Client(place, { ...options(), user });
