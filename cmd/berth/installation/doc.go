// Package installation puts an embedded Berth together: the state, the queues and streams that
// template.yaml declares, the functions, the API, and a simulated AWS as its ECS, all on one
// loop.
//
// It owns the wiring and nothing else: what each part does is in the package of that part. In come
// [Options]; out comes an [Installation], which does nothing until its loop runs. `berth up`, the
// replay, the simulation, the end-to-end tests and the benchmarks all run this one, so what they
// test is what users run. Tests use the Wrap fields of Options to fail, delay and measure calls at
// the ports.
//
// The functions are connected to their sources exactly as template.yaml connects them on AWS: a
// change of the template changes the installation. With a data folder, the next installation
// resumes where this one stopped, even if its process was killed: rows are durable, and what was
// lost with the queues is found by a sweep ([Installation.Start]).
//
// Start reading at [Open].
package installation
