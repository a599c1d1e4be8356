// A tile in workgroup memory: the totals of its leaves, and of ever larger blocks of them.
//
//   leaf      0   1   2   3   4   5   6   7          the total of an aligned block of 2^k leaves ends up
//   level 1      0+1     2+3     4+5     6+7         in the slot of the block's last leaf
//   level 2             0..3            4..7
//
// A slot whose index plus one is an odd multiple of 2^k keeps the total of 2^k leaves: the blocks that a scan needs to
// the left of any leaf. One step joins four neighbouring blocks, so a step is two levels.
// Ordering: invocations read what others wrote one step before, a barrier apart. Every slot is written before it is
// read: blocks that do not exist are never joined.
// Holes: Acc, combine, read_slot, write_slot. SLOTS is the tile's room, all lines together.

// Leaves of the workgroup's slots: those of one line lie together, or those of one leaf number.
struct Place {
    line: u32,
    leaf: u32,
}

// The slot of a leaf. Bits of the row are mixed into the bank, so that steps of 4 and 16 slots hit different banks.
fn slot_of(line: u32, leaf: u32, log_leaves: u32) -> u32 {
    let slot = select((line << log_leaves) | leaf, (leaf << P.log_lines) | line, P.line_fastest != 0u);
    return slot ^ ((slot >> 5u) & 31u);
}

// Which line and leaf (or block of leaves) a job of the workgroup is about.
fn place_of(job: u32, log_leaves: u32) -> Place {
    if (P.line_fastest != 0u) {
        return Place(job & ((1u << P.log_lines) - 1u), job >> P.log_lines);
    }
    return Place(job >> log_leaves, job & ((1u << log_leaves) - 1u));
}

// The slot that keeps the total of block `block` of 2^log_size leaves.
fn block_slot(line: u32, block: u32, log_size: u32, log_leaves: u32) -> u32 {
    return slot_of(line, min((block + 1u) << log_size, 1u << log_leaves) - 1u, log_leaves);
}

// Totals of all aligned blocks of the first `leaves` leaves of each line. The whole line's is in its last slot.
fn sweep(lane: u32, leaves: u32, log_leaves: u32) {
    for (var log_size = 0u; log_size < log_leaves; log_size += 2u) {
        workgroupBarrier();
        let log_joins = log_leaves - min(log_leaves, log_size + 2u);
        let blocks = (leaves + (1u << log_size) - 1u) >> log_size;
        let jobs = 1u << (log_joins + P.log_lines);
        for (var job = lane; job < jobs; job += GROUP_SIZE) {
            let place = place_of(job, log_joins);
            let first = place.leaf * 4u;
            if (first < blocks) {
                join(place.line, first, blocks - first, log_size, log_leaves);
            }
        }
    }
    workgroupBarrier();
}

// Joins up to four blocks from `first`; what has no right neighbour passes up.
fn join(line: u32, first: u32, count: u32, log_size: u32, log_leaves: u32) {
    var total = read_slot(block_slot(line, first, log_size, log_leaves));
    if (count > 1u) {
        let slot = block_slot(line, first + 1u, log_size, log_leaves);
        total = combine(total, read_slot(slot));
        if (KEEPS_BLOCKS) {
            write_slot(slot, total);
        }
    }
    if (count > 2u) {
        var right = read_slot(block_slot(line, first + 2u, log_size, log_leaves));
        if (count > 3u) {
            right = combine(right, read_slot(block_slot(line, first + 3u, log_size, log_leaves)));
        }
        total = combine(total, right);
    }
    write_slot(block_slot(line, first + 3u, log_size, log_leaves), total);
}
