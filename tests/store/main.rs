//! Data directories: kills, damage, limits of the machine, the room that rows take.
//!
//! Owns: nothing; each room has its subject. Must not: need a fault that a real disk does not have.

mod crash;
mod damage_directory;
mod damage_pages;
mod limits;
mod table_space;
mod table_wide;
