-- A strobe profile. Addresses are those of the module's file; a NULL module means code of no file.
-- Counts are sums over ticks and bursts as recorded, not yet estimates.

-- Facts about the recording, one per row: program, settings, machine, measured cost.
CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE process (
    id INTEGER PRIMARY KEY,
    pid INTEGER NOT NULL,
    parent_pid INTEGER,             -- the recorded process it was forked from
    command TEXT NOT NULL
);

CREATE TABLE module (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    build_id TEXT                   -- hexadecimal
);

-- Where modules were loaded: bias = address in the process - address in the file.
CREATE TABLE mapping (
    process INTEGER NOT NULL REFERENCES process,
    module INTEGER NOT NULL REFERENCES module,
    bias INTEGER NOT NULL,
    PRIMARY KEY (process, module, bias)
) WITHOUT ROWID;

-- Calling contexts as a tree: a frame and the frame that called it. Root frames have parent 0.
CREATE TABLE context (
    id INTEGER PRIMARY KEY,
    parent INTEGER NOT NULL,
    module INTEGER REFERENCES module,
    address INTEGER NOT NULL        -- return address - 1, except in the innermost frame
);

-- Ticks: where CPU time went.
CREATE TABLE tick (
    process INTEGER NOT NULL REFERENCES process,
    tid INTEGER NOT NULL,
    context INTEGER NOT NULL REFERENCES context,
    outcome TEXT NOT NULL,          -- what came of the tick
    n INTEGER NOT NULL,
    PRIMARY KEY (process, tid, context, outcome)
) WITHOUT ROWID;

-- Bursts, summed by the module and function-independent address at which they started.
CREATE TABLE burst (
    module INTEGER,
    address INTEGER NOT NULL,
    end_reason TEXT NOT NULL,
    n INTEGER NOT NULL,
    records INTEGER NOT NULL,
    checks INTEGER NOT NULL,
    cycles INTEGER NOT NULL,        -- time in the burst, system calls excluded
    UNIQUE (module, address, end_reason)
);

-- How often control went from one block to another in bursts.
CREATE TABLE edge (
    from_module INTEGER NOT NULL,
    from_address INTEGER NOT NULL,
    to_module INTEGER NOT NULL,
    to_address INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (from_module, from_address, to_module, to_address)
) WITHOUT ROWID;

-- Raw bursts (only with --keep-trace): zstd-compressed, in order. Each is, in little-endian numbers, the address at which it started (8
-- bytes), the number of block records (4), the checks to skip by the sampling policy (4), and the records (4 each: 2 bits of cluster and
-- 30 bits of address from the start of the cluster).
CREATE TABLE trace (
    id INTEGER PRIMARY KEY,
    process INTEGER NOT NULL REFERENCES process,
    samples INTEGER NOT NULL,
    bytes INTEGER NOT NULL,         -- uncompressed
    data BLOB NOT NULL
);
