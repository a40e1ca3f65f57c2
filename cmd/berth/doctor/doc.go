// Package doctor judges an installation on AWS: what is wrong with it, and what to do.
//
// In come [Facts], what package account has read of the stack, its functions, roles, queues and
// rules, and of the clusters with their Auto Scaling groups; out comes a [Report] of checks in a
// fixed order. A check has a verdict and findings; a finding has the thing, its value, what was
// expected, and a command that mends it. What could not be read makes a check unknown, and says
// which permission is missing.
//
// What should be there is what template.yaml says: a [Plan] is the template with the parameters and
// the resources of the stack filled in.
//
// [ExamineFolder] does the same for a data folder of `berth up`.
//
// The package is pure. Start with check.go; [Examine] has the list of checks.
package doctor
