// Package cloud is Berth's local cloud tier: template.yaml, deployed unchanged to an emulator of
// AWS that enforces every function's role, with the functions' real binaries and the simulated AWS
// in a process of its own. `make local`, the end-to-end tests and the benchmarks run the same tier.
//
// [Start] brings it up: it starts the emulator (package ministack), runs `berth fleet`, and deploys
// a [Version] as a CloudFormation stack. Tests call Berth through [Cloud.Client], [Cloud.CallBerth]
// and [Cloud.CallEKS], and disturb it through the other methods. A [Tap] sees every call of the
// functions, and may refuse it or lose its answer.
//
// Start reading at [Cloud.Deploy].
package cloud
