// Package chart draws figures as SVG: lines over time, and bars. The console shows them on its
// pages, and commands put them into files with --report.
//
// A figure needs no script and no style but [CSS], follows the reader's light or dark theme, and
// can be told apart without colours: lines have dashes of their own, and every bar its number.
// Start with plot.go, then report.go.
package chart
