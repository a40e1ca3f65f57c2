// Package simulation proves that the scheduler survives at-least-once, out-of-order and cut-off
// delivery. It runs a whole installation from one seed: the real handlers on the embedded tier, one
// goroutine at a time, on a virtual clock, against the simulated AWS. The same seed gives the same
// run, step by step.
//
// # A run
//
// A [Run] has four parts.
//
//  1. A cluster is created without faults ([World.createCluster]).
//  2. The history happens: a list of [Action] values, drawn from the seed, in which callers,
//     machines and operators do something at a time. Meanwhile the [FaultInjector] strikes at
//     every place where a real service can fail: queues, streams, the store, ECS, the process.
//  3. The faults end ([World.endFaults]) and the cluster must converge ([World.checkConvergence]).
//  4. Nothing more may happen ([World.checkQuiet]).
//
// There are four kinds of run. [Simulate] has the general one, one in which no function runs for
// two hours (Run.LongOutage), and one that updates a node group (Run.Upgrade). [SimulateScaling]
// lets managed scaling follow the load of a day.
//
// # What is checked
//
// After every commit, package invariant compares what was written with its own statement of the
// rules; it shares only the nouns of package cluster with the code under test. The calls that leave
// the installation, such as StopTask, are checked when they are made. At rest, the rows must agree
// with the simulated AWS and with what callers were told (convergence*.go), and each service with
// the rules of package model. The first failure ends the run.
//
// Three things keep the simulation itself honest. Package coverage lists what must have happened in
// some run. A run executed twice has the same hash. And for each planted [Bug] some seed must find
// it, by the invariant that it breaks, while the same seed passes without it.
//
// # A failure
//
// [Report] prints the seed, what broke, and the shortest history that still breaks it. [Shrink]
// finds that history by removing faults and actions for as long as the same invariant breaks.
// Actions choose what they hit when they happen (Action.Pick), so a shorter history still makes
// sense. "make simulate SEED=n" shows one seed with all its commits.
//
// # Where to start reading
//
// World.runHistory in world.go is a run from start to end. Then read fault.go (which faults there
// are) and process.go (how a function is suspended or dies at any call), workload.go (which actions
// there are), invariant/checker.go (what is checked after a commit) and convergence.go (what is
// checked at rest). The files scaling_*.go and upgrade_*.go are the other kinds of run, bug*.go the
// planted bugs. docs/simulation.md describes all this for people who run it.
//
// # What must stay
//
// Seeds are addresses: regression_test.go lists seeds that once found a bug. A change that draws
// other random numbers, or in another order, gives every seed another history. That is why each
// fault draws from its own source, and why later additions have sources of their own
// ([drawExtras], [drawTaskSets], [drawTaints], [drawApplications]).
package simulation
