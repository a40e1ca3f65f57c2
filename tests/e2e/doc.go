// Package e2e uses Berth as its users do: from outside, through its APIs.
//
// A [scenario] runs on a [Tier] and knows nothing else about it. There are two tiers: virtual is
// the embedded tier on a virtual clock, in which a scenario takes seconds; local is template.yaml
// on an emulator of AWS with every role enforced, in which time passes and a scenario takes
// minutes. The scenarios are those of services (scenario_test.go), rollouts under a watch that
// counts healthy tasks (rollout_test.go, watch_test.go), capacity providers (capacity_test.go) and
// node groups (nodegroup_test.go).
//
// Other tests run the commands of README.md and docs with the real AWS CLI, send invalid input,
// kill functions and lose answers, compare roles with the calls that functions make, and replace an
// earlier version under load.
//
// Start reading at runServiceScenario in scenario_test.go, then see TestLocalCloud in cloud_test.go
// for how the scenarios run on the local tier.
package e2e
