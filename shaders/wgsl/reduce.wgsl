// The total of each tile of each line.
//
//   line 0   tile 0 | tile 1 | tile 2 |      a workgroup takes one tile of 2^log_lines neighbouring lines:
//   line 1   tile 0 | tile 1 | tile 2 |      2^log_leaves leaves of four elements each
//
// 1. Every invocation loads leaves, eight rows at a time, and puts each one's total into workgroup memory. Leaves and lines that do not exist are loaded as the last that does, and never joined.
// 2. The tile's blocks are joined (tile.wgsl).
// 3. Each line's total is stored: as a result, or as an element of the next pass.
// Holes: load_quad (elements, or totals of an earlier pass), combine, store_total.

// The total of a whole leaf: left to right, or, of totals, a balanced tree.
fn whole_total(quad: Quad) -> Acc {
    let left = combine(quad.a, quad.b);
    if (LEAVES_ARE_BALANCED) {
        return combine(left, combine(quad.c, quad.d));
    }
    return combine(combine(left, quad.c), quad.d);
}

// The total of a leaf with `count` elements left in its line.
fn leaf_total(quad: Quad, count: u32) -> Acc {
    if (count >= 4u) {
        return whole_total(quad);
    }
    var total = quad.a;
    if (count > 1u) {
        total = combine(total, quad.b);
    }
    if (count > 2u) {
        total = combine(total, quad.c);
    }
    return total;
}

// Puts the totals of the leaves that exist of four rows.
fn write_rows(tile: Tile, slot: u32, at: Places, rows: Rows) {
    write_row(tile, slot, at.a.y, rows.a);
    write_row(tile, slot + GROUP_SIZE, at.b.y, rows.b);
    write_row(tile, slot + 2u * GROUP_SIZE, at.c.y, rows.c);
    write_row(tile, slot + 3u * GROUP_SIZE, at.d.y, rows.d);
}

fn write_row(tile: Tile, slot: u32, i: u32, quad: Quad) {
    if (tile.is_even) {
        write_slot(bank_of(slot), whole_total(quad));
    } else if (slot < tile.slots) {
        write_slot(bank_of(slot), leaf_total(quad, P.length - i));
    }
}

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
    let tile = tile_of(group);
    let start = place_of(tile, lane);
    for (var row = 0u; row * GROUP_SIZE < tile.slots; row += 8u) {
        // Both halves load before either is used, so that eight loads are under way.
        let near_places = places_of(tile, lane, row, start);
        let far_places = places_of(tile, lane, row + 4u, start);
        let has_far = SLOTS > 4u * GROUP_SIZE && (row + 4u) * GROUP_SIZE < tile.slots;
        let near = load_rows(near_places);
        var far = near;
        if (has_far) {
            far = load_rows(far_places);
        }
        write_rows(tile, lane + row * GROUP_SIZE, near_places, near);
        if (has_far) {
            write_rows(tile, lane + (row + 4u) * GROUP_SIZE, far_places, far);
        }
    }
    sweep(lane, tile.leaves, P.log_leaves, P.log_leaves + P.log_lines);
    let last_leaf = (1u << P.log_leaves) - 1u;
    for (var line = lane; line < tile.lines; line += GROUP_SIZE) {
        let slot = select(line << P.log_leaves, line, P.log_stride != 0u) + (last_leaf << P.log_stride);
        store_total(tile.first_line + line, tile.number, read_slot(bank_of(slot)));
    }
}
