// Package account reads what package doctor judges from an AWS account, with the caller's
// credentials. It only reads: [Actions] are all the permissions that it uses.
//
// In comes a stack's name; out come [doctor.Facts]. The stack is read first, and then everything
// else at once. What cannot be read is an error beside its place in the facts, never an error of
// the whole. Start at [Read].
package account
