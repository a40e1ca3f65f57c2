// Package iam simulates the part of AWS IAM that makes instance profiles, and roles for them. Roles
// are kept and described, with their policies, and allow nothing: the simulated services ask for no
// permissions, and a profile may have a role that was not made here.
//
// What comes in are calls of [Profiles] and [Roles] in process, or of the Query protocol; what goes
// out are answers. The launches of package autoscaling do not look at profiles. Start at
// [Profiles.QueryService].
package iam
