// Package cloud is Berth's local cloud tier: template.yaml, deployed unchanged to an emulator of
// AWS that enforces every function's role, with the functions' real binaries and the simulated AWS
// in a process of its own. `make local`, the end-to-end tests and the benchmarks run the same tier.
//
// [Start] brings it up: it starts the emulator (package ministack), runs `berth fleet`, and deploys
// a [Version] as a CloudFormation stack. Tests call Berth through [Cloud.Client], [Cloud.CallBerth]
// and [Cloud.CallEKS], and disturb it through the other methods. A [Tap] sees every call of the
// functions, and may refuse it or lose its answer.
//
// The function URL of the tier is a true counterpart of AWS's: it verifies each signature, for the
// service lambda, asks IAM whether the caller may invoke it, and names the caller in the event.
// [Cloud.CreateCaller] makes IAM users with rights to Berth's API. A real client runs as one of
// them through `berth proxy`:
//
//	writer, err := tier.CreateCaller(ctx, cloud.Writer)
//	cmd := exec.Command(berth, "proxy", "--stack", cloud.StackName, "--", "aws", "ecs", "list-clusters")
//	cmd.Env = append(os.Environ(), tier.ClientEnvironment(writer)...)
//
// Start reading at [Cloud.Deploy].
package cloud
