// Package iam simulates the part of AWS IAM that makes instance profiles. Roles are not simulated:
// every name is that of a role.
//
// What comes in are calls of [Profiles] in process, or of the Query protocol; what goes out are
// answers. The launches of package autoscaling do not look at profiles. Start at
// [Profiles.QueryService].
package iam
