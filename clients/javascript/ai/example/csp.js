// The server's pages may not make code out of texts, which zod (of the AI SDK) would try before it does without.

import { config } from "zod";

config({ jitless: true });
