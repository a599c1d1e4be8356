//! Inputs from public bug reports with their right values, by the ids of the collection (A05, B02, …).
//!
//! Left out here: cases of operations that do not exist yet (sort, masks, arguments of extremes, exclusive scans,
//! writing to views, power, random numbers, caches), and the parts of others that need element types that do not.

mod a_reductions;
mod b_axes;
mod c_scans;
mod d_broadcasting;
mod f_views;
mod g_limits;
mod i_devices;
mod j_math;
mod l_devices;
mod l_functions;
mod l_memory;
mod l_npy;
mod l_numbers;
mod l_opening;
mod l_planning;
mod l_printing;
mod l_views;
mod l_words;
