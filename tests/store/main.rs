//! Data directories: kills, damage, limits of the machine, the room that rows take.
//!
//! Owns: nothing; each room has its subject. Must not: plant a fault but in a control.

mod crash;
mod damage_directory;
mod damage_pages;
mod faults;
mod limits;
mod table_space;
mod table_wide;
