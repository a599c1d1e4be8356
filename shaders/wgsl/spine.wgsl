// Totals of ever larger blocks of tiles, in place.
//
// A line's totals lie one per tile. Every 2^log_step-th of them is a node, at the index of its block's last tile. A
// workgroup joins up to SLOTS neighbouring nodes of one line as tile.wgsl joins leaves, and puts all of them back: the
// totals then hold the blocks that a scan needs to the left of any tile. Larger blocks are the next dispatch's nodes.
// Holes: load_total, store_block (both by index), combine. w0 is the number of tiles of a line.

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let group = id.x + id.y * count.x;
    if (group >= P.groups) {
        return;
    }
    let log_nodes = P.log_leaves + 2u;
    let first = (group % P.tiles) << log_nodes;
    let nodes = min(P.length - first, 1u << log_nodes);
    let row = (group / P.tiles) * P.w0;
    for (var node = lane; node < nodes; node += GROUP_SIZE) {
        write_slot(bank_of(node), load_total(row + ((first + node + 1u) << P.log_step) - 1u));
    }
    sweep(lane, nodes, log_nodes, log_nodes);
    for (var node = lane; node < nodes; node += GROUP_SIZE) {
        store_block(row + ((first + node + 1u) << P.log_step) - 1u, read_slot(bank_of(node)));
    }
}
