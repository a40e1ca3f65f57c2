// Package client calls a running Berth for the command line.
//
// It knows the protocols and signs requests; what is asked and answered is the caller's.
// [Client.CallECS] and [Client.CallBerth] speak JSON with a target header, [Client.CallEKS] JSON
// over REST. Answers are decoded into the caller's types. Two reads go to AWS directly, because
// Berth's API does not serve them: [Client.AutoScalingGroups] and [Client.LaunchTemplate].
//
// An endpoint on this machine is called without credentials. Any other is signed with those that
// the SDK finds. A refusal by the API is a [cluster.Error] with its code; an endpoint where nobody
// listens is an error that says what to start. Nothing is retried.
//
// Start reading at [New].
package client
