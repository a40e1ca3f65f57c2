// Package awsapi calls AWS for Berth's functions: ECS for tasks and instances here, and in packages
// below it the services that only some functions need (autoscaling, balancing, cloudwatch,
// eventbus, launchtemplate, wakequeue), so that a function's binary has no SDK client that it does
// not use.
//
// It implements the ports of package handler: Berth's nouns come in and become the SDK's inputs,
// and answers become nouns again. Package sim implements the same ports in process; fleet_test.go
// holds the two against each other. It decides nothing.
//
// Errors are the important part. An error that the API answered with is a *cluster.Error with the
// API's code. cluster.ErrAmbiguous is added where a call that changes something may have taken
// effect all the same: the caller must find out before it repeats the call (package outcome). An
// answer that says only who we are, such as an expired token, stays the SDK's error: it is no
// verdict on the request.
//
// Start at [ECS.StartTask].
package awsapi
