// Package coverage lists what must have happened in some run of the simulation. A simulation that
// never injects a fault, or never lets a rule decide, proves nothing about it. The simulation
// counts each [Point] when it happens, and a test over enough seeds fails if one was never reached.
package coverage
