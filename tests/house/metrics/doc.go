// Package metrics measures the structure of the program's own code: how large its types, files and functions are, how
// much of it is comments, how its functions are named, which files call each other both ways, and how much one has to read
// to follow an event from one function to another.
//
// [Load] reads a checkout, [Code.Measure] takes all figures of it. Only .go files below [Areas] count, without tests
// and testdata; a figure that counts more says so. The package decides nothing: limits are in tests/house.
package metrics
