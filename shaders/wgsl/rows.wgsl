// Leaves as an invocation of a reduction or scan holds them: in registers, four rows of the tile at a time.
//
// They are fields and not an array, since an array indexed by a loop would live in memory (measured in a scan: half the
// speed). Hole: load_quad.

// Four rows of a lane: the leaves of slots GROUP_SIZE apart.
struct Rows {
    a: Quad,
    b: Quad,
    c: Quad,
    d: Quad,
}

// The rows of an even tile from row `row`, of a lane whose first row is at `start`: equal steps apart, nothing to ask.
fn load_even_rows(tile: Tile, start: vec2<u32>, row: u32) -> Rows {
    let i = start.y + row * tile.row_step;
    return Rows(
        load_quad(start.x, i),
        load_quad(start.x, i + tile.row_step),
        load_quad(start.x, i + 2u * tile.row_step),
        load_quad(start.x, i + 3u * tile.row_step),
    );
}
