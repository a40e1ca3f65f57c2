// Package choice words the values that are possible, and finds the one that was probably meant.
//
// What comes in is a text and the known values; what goes out ends an error's sentence: [Expected]. The
// package is pure and imports nothing of this module. Start with nearest.go.
package choice
