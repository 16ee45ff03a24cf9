-- A strobe profile; its version is in `user_version`.
--
-- Every table has one row per thing that was seen, numbered from 0 without gaps; other tables refer to it by that number. Addresses are
-- those of the module's file. Times are CPU times in nanoseconds.
--
-- Counts and times are estimates of the whole run. Each takes three columns: the value; its variance, 0 in an exact profile (the 95 %
-- interval is the value +- 1.96 times the square root of the variance); and how many events were seen for it. For example, the functions in
-- which most time was spent:
--
--     SELECT name, self_ns FROM function ORDER BY 2 DESC LIMIT 10;
--
-- and for each conditional branch how often it was seen to go either way:
--
--     SELECT block.address, sum(n_taken), sum(n_not_taken) FROM history JOIN block ON block.id = history.block GROUP BY block.id;

-- Facts about the recording, one per row: program, settings, machine, measured cost.
CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- Figures of the whole profile. `unseen_at_most` is what an event that was not seen can have counted at most, with 95 % confidence.
-- `scale_error` is the standard deviation of the logarithm of a factor that all counts can be off by together, `mix_error` that of factors that
-- counts of different phases of the program can be off by against each other.
-- `user_ns` and `system_ns` are the CPU time of the run by the kernel's account, 0 if it is not known; `unwatched_ns` is the part of the
-- time in user code of which nothing but the place is known, because no burst could start.
-- `unobserved_flow` counts the ends of paths that had begun before the burst or were longer than it: they are in blocks and edges only.
CREATE TABLE figure (
    name TEXT PRIMARY KEY,
    value REAL NOT NULL,
    value_variance REAL NOT NULL,
    value_seen INTEGER NOT NULL
) WITHOUT ROWID;

-- What came of the ticks at which the program was looked at.
CREATE TABLE tick (outcome TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;

-- Programs and libraries.
CREATE TABLE module (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL,                     -- where it was loaded from
    build_id TEXT NOT NULL                  -- hexadecimal; empty if it has none
);

-- Functions with at least one block or tick.
CREATE TABLE function (
    id INTEGER PRIMARY KEY,
    module INTEGER NOT NULL REFERENCES module,
    address INTEGER NOT NULL,
    size INTEGER NOT NULL,                  -- bytes from the first address to the end of its main part
    name TEXT NOT NULL,                     -- linkage name; empty if the file has none for it
    entries REAL NOT NULL,                  -- how often it was entered
    entries_variance REAL NOT NULL,
    entries_seen INTEGER NOT NULL,
    self_ns REAL NOT NULL,                  -- user time in its own code
    self_ns_variance REAL NOT NULL,
    self_ns_seen INTEGER NOT NULL
);

-- Basic blocks: entered at the first instruction, left at the last.
CREATE TABLE block (
    id INTEGER PRIMARY KEY,
    function INTEGER NOT NULL REFERENCES function,
    address INTEGER NOT NULL,
    size INTEGER NOT NULL,                  -- bytes
    last_offset INTEGER NOT NULL,           -- from the first instruction to the last, in bytes
    n_insns INTEGER NOT NULL,               -- instructions
    ending INTEGER NOT NULL REFERENCES block_ending,
    count REAL NOT NULL,
    count_variance REAL NOT NULL,
    count_seen INTEGER NOT NULL,
    self_ns REAL NOT NULL,                  -- user time in it
    self_ns_variance REAL NOT NULL,
    self_ns_seen INTEGER NOT NULL
);

-- What the last instruction of a block does.
CREATE TABLE block_ending (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
INSERT INTO block_ending VALUES
    (0, 'next'), (1, 'jump'), (2, 'branch'), (3, 'indirect jump'), (4, 'call'), (5, 'indirect call'), (6, 'return'), (7, 'trap');

-- Steps between blocks of one function. A call and its return are one step, from the calling block to the return site.
CREATE TABLE edge (
    id INTEGER PRIMARY KEY,
    from_block INTEGER NOT NULL REFERENCES block,
    to_block INTEGER NOT NULL REFERENCES block,
    kind INTEGER NOT NULL REFERENCES edge_kind,
    is_back INTEGER NOT NULL,               -- 1 for a back edge of a loop, where paths end
    count REAL NOT NULL,
    count_variance REAL NOT NULL,
    count_seen INTEGER NOT NULL
);

-- How control flows along an edge.
CREATE TABLE edge_kind (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
INSERT INTO edge_kind VALUES (0, 'fall-through'), (1, 'taken'), (2, 'table'), (3, 'past call'), (4, 'non-local');

-- Ball-Larus paths: from an entry of the function or a loop header to an exit or a back edge.
CREATE TABLE path (
    id INTEGER PRIMARY KEY,
    function INTEGER NOT NULL REFERENCES function,
    -- The blocks in order, packed: each is its difference to the one before (the first: to 0), mapped to 0, -1, 1, -2, 2, ... -> 0, 1, 2,
    -- 3, 4, ... and written in groups of 7 bits, the lowest first, with the top bit set in all but the last byte of a number.
    blocks BLOB NOT NULL,
    back_to INTEGER REFERENCES block,       -- where the final back edge leads; NULL if the path ends at an exit
    n_branches INTEGER NOT NULL,            -- conditional and computed branches on it
    count REAL NOT NULL,
    count_variance REAL NOT NULL,
    count_seen INTEGER NOT NULL,
    self_ns REAL NOT NULL,                  -- user time in its blocks, callees not included
    self_ns_variance REAL NOT NULL,
    self_ns_seen INTEGER NOT NULL,
    misses INTEGER NOT NULL                 -- of a simulated data cache, callees not included; 0 if there was none
);

-- Call sites and their callees.
CREATE TABLE call (
    id INTEGER PRIMARY KEY,
    site INTEGER NOT NULL REFERENCES block, -- the block that ends in the call
    callee INTEGER NOT NULL REFERENCES function,
    is_tail INTEGER NOT NULL,               -- 1 if the caller's frame is gone
    count REAL NOT NULL,
    count_variance REAL NOT NULL,
    count_seen INTEGER NOT NULL
);

-- Calling contexts: a tree whose nodes are functions. Parents come before their children. A function that is already among the ancestors
-- gets no new node: see recursion.
CREATE TABLE context (
    id INTEGER PRIMARY KEY,
    parent INTEGER REFERENCES context,      -- NULL at the root of a thread or signal handler
    function INTEGER NOT NULL REFERENCES function,
    call_site INTEGER NOT NULL,             -- address of the call in the parent's module; 0 where calls are not told apart
    entries REAL NOT NULL,
    entries_variance REAL NOT NULL,
    entries_seen INTEGER NOT NULL,
    self_ns REAL NOT NULL,                  -- user time in this function in this context, callees not included
    self_ns_variance REAL NOT NULL,
    self_ns_seen INTEGER NOT NULL,
    kernel_ns REAL NOT NULL,                -- kernel time likewise
    kernel_ns_variance REAL NOT NULL,
    kernel_ns_seen INTEGER NOT NULL,
    misses INTEGER NOT NULL                 -- of a simulated data cache likewise; 0 if there was none
);

-- Calls from a context to a function among its own ancestors.
CREATE TABLE recursion (
    id INTEGER PRIMARY KEY,
    from_context INTEGER NOT NULL REFERENCES context,
    to_context INTEGER NOT NULL REFERENCES context,
    count REAL NOT NULL,
    count_variance REAL NOT NULL,
    count_seen INTEGER NOT NULL
);

-- How often paths ran in contexts of their function, and what they took there. Only recordings of
-- `strobe count --of context-paths` have rows here.
CREATE TABLE context_path (
    id INTEGER PRIMARY KEY,
    context INTEGER NOT NULL REFERENCES context,
    path INTEGER NOT NULL REFERENCES path,
    count REAL NOT NULL,
    count_variance REAL NOT NULL,
    count_seen INTEGER NOT NULL,
    self_ns REAL NOT NULL,                  -- user time in its blocks, callees not included
    self_ns_variance REAL NOT NULL,
    self_ns_seen INTEGER NOT NULL,
    misses INTEGER NOT NULL                 -- of a simulated data cache likewise; 0 if there was none
);

-- Loops. Enclosing loops come before those in them.
CREATE TABLE loop (
    id INTEGER PRIMARY KEY,
    function INTEGER NOT NULL REFERENCES function,
    header INTEGER NOT NULL REFERENCES block,
    parent INTEGER REFERENCES loop,         -- the loop around it
    entries REAL NOT NULL,                  -- how often it was entered from outside
    entries_variance REAL NOT NULL,
    entries_seen INTEGER NOT NULL,
    iterations REAL NOT NULL,               -- how often its header ran
    iterations_variance REAL NOT NULL,
    iterations_seen INTEGER NOT NULL,
    -- Visits that were seen from entry to exit, by the number of iterations, as a JSON array: the k-th number, from 0, counts those of 2^k
    -- to 2^(k+1) - 1 iterations.
    trips TEXT NOT NULL,
    n_partial_visits INTEGER NOT NULL,      -- visits that were seen in part only
    self_ns REAL NOT NULL,                  -- user time in its blocks, nested loops included, callees not
    self_ns_variance REAL NOT NULL,
    self_ns_seen INTEGER NOT NULL
);

-- Outcomes of conditional branches by what came before. These are raw counts of what was seen, not estimates.
CREATE TABLE history (
    id INTEGER PRIMARY KEY,
    block INTEGER NOT NULL REFERENCES block,
    history INTEGER NOT NULL,               -- the last six outcomes, the latest in bit 0; 1 is taken
    n_taken INTEGER NOT NULL,
    n_not_taken INTEGER NOT NULL
);

-- Places where the program entered the kernel.
CREATE TABLE system_call (
    id INTEGER PRIMARY KEY,
    context INTEGER NOT NULL REFERENCES context,
    module INTEGER REFERENCES module,       -- NULL if the instruction is in none
    address INTEGER NOT NULL,               -- of the instruction behind `syscall`
    kernel_ns REAL NOT NULL,
    kernel_ns_variance REAL NOT NULL,
    kernel_ns_seen INTEGER NOT NULL
);

-- What instructions loaded, and where they went.
CREATE TABLE value (
    id INTEGER PRIMARY KEY,
    module INTEGER NOT NULL REFERENCES module,
    address INTEGER NOT NULL,               -- of the instruction
    kind INTEGER NOT NULL,                  -- 0: loaded, 1: address accessed, 2: call target, 3: jump target, 4: method table, 5: branch target, 8 to 13: argument
    is_any INTEGER NOT NULL,                -- 1: the row is about all values together
    value INTEGER NOT NULL,                 -- as a signed number; 0 if is_any
    value_module INTEGER REFERENCES module, -- in which the value is an address
    n REAL NOT NULL,
    n_variance REAL NOT NULL,
    n_seen INTEGER NOT NULL                 -- messages that it rests on
);

CREATE TABLE thread (
    id INTEGER PRIMARY KEY,
    pid INTEGER NOT NULL,
    tid INTEGER NOT NULL,
    command TEXT NOT NULL,                  -- command line of the process
    cpu_ns INTEGER NOT NULL                 -- user and kernel
);

-- Processes of which raw bursts are kept.
CREATE TABLE process (
    id INTEGER PRIMARY KEY,
    pid INTEGER NOT NULL,
    parent_pid INTEGER,                     -- the recorded process it was forked from
    command TEXT NOT NULL
);

-- Where modules were loaded in them: bias = address in the process - address in the file.
CREATE TABLE mapping (
    process INTEGER NOT NULL REFERENCES process,
    path TEXT NOT NULL,
    bias INTEGER NOT NULL,
    PRIMARY KEY (process, path, bias)
) WITHOUT ROWID;

-- Bursts (only with --keep-trace): zstd-compressed, in order. Each is, in little-endian numbers, the thread (4 bytes), why it ended (4),
-- how many blocks it reached (4), the checks to skip by the sampling policy (4), then the places where it started and ended (8 each), and
-- the blocks (8 each). A place is the number of the module in the upper 16 bits (65535: none) and an address of its file in the others.
CREATE TABLE trace (
    id INTEGER PRIMARY KEY,
    process INTEGER NOT NULL REFERENCES process,
    samples INTEGER NOT NULL,
    bytes INTEGER NOT NULL,                 -- uncompressed
    data BLOB NOT NULL
);
