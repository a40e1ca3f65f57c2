// Package input reads what all of Berth's APIs take: names, ids and ARNs of things ([References]),
// bounds of members, and tokens of pages. What cannot be is an InvalidParameterException that names
// the member and the value.
package input
