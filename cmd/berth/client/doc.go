// Package client calls a running Berth for the command line.
//
// It knows the protocols and signs requests; what is asked and answered is the caller's.
// [Client.CallECS] and [Client.CallBerth] speak JSON with a target header, [Client.CallEKS] JSON
// over REST. Answers are decoded into the caller's types. Two reads go to AWS directly, because
// Berth's API does not serve them: [Client.AutoScalingGroups] and [Client.LaunchTemplate].
//
// [FindTarget] finds the API, by its URL or by its CloudFormation stack, and the credentials, as
// the SDK does. Each request is signed with them; only an API on this machine may do without. A
// refusal by the API is a [cluster.Error] with its code; an endpoint where no server listens is an
// error that says what to start, and a refusal by Lambda one that says which policy is missing.
// Nothing is retried. `berth proxy` uses the same target.
//
// Start reading at [FindTarget] and [New].
package client
