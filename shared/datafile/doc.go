// Package datafile is a file of a data folder: a bbolt database that is read whole before it is
// used, and that says so when it cannot be written.
//
// [Open] refuses a file that is truncated, overwritten, or in use, with an error that names it and
// what to do. It never begins an empty database in place of a damaged one. [Pair] keeps the files
// of two data folders from being mixed. [File.Update] is written whole or not at all: after a
// failure it finds out which, by opening the file again.
package datafile
