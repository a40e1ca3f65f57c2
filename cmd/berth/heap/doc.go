// Package heap lets a server use memory to save processor time. `berth up` calls it.
//
// Go collects garbage when the heap has doubled. Each collection reads all that is alive, and in a
// large cluster that takes some tenths of a second in which every call is slower. [Tune] lets the heap
// grow to a fixed size first. Start at [percentFor].
package heap
