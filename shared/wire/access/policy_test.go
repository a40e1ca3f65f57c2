package access

import (
	"strings"
	"testing"

	"berth/shared/cluster"
)

const (
	ann     = "arn:aws:iam::123456789012:user/ann"
	ci      = "arn:aws:sts::123456789012:assumed-role/deployer/run-17"
	ciRole  = "arn:aws:iam::123456789012:role/deployer"
	pathed  = "arn:aws:iam::123456789012:role/teams/web/deployer"
	another = "arn:aws:iam::999999999999:role/deployer"
)

func TestOnlyListedPrincipalsMayChangeAnything(t *testing.T) {
	p := &Policy{Writers: []string{ann}, NodeGroupManagers: []string{ciRole}}
	for _, c := range []struct {
		principal, operation string
		may                  bool
	}{
		{ann, "CreateService", true}, {ann, "DescribeServices", true}, {ann, "CreateNodegroup", false},
		{ann, "UpdateCapacityProvider", false}, {ann, "PutClusterCapacityProviders", true},
		{ci, "CreateNodegroup", true}, {ci, "DeleteCapacityProvider", true}, {ci, "CreateService", false},
		{ci, "ListNodegroups", true}, {"", "DescribeServices", false}, {"", "CreateService", false},
		{ann, "SomethingNew", true}, {ci, "SomethingNew", false}, {ann + "a", "StopTask", false},
		{"*", "StopTask", false},
	} {
		err := p.Check(c.principal, c.operation)
		if (err == nil) != c.may {
			t.Errorf("%q calling %s: %v, want allowed %v", c.principal, c.operation, err, c.may)
		}
		if err != nil && (cluster.ErrorCode(err) != cluster.CodeAccessDenied ||
			!strings.Contains(err.Error(), c.operation)) {
			t.Errorf("%q calling %s: %v, want an AccessDeniedException that names both", c.principal, c.operation, err)
		}
	}
}

// A refusal names what gives the right on AWS, and in one process.
func TestRefusalsSayWhatGivesTheRight(t *testing.T) {
	for operation, want := range map[string]string{
		"StopTask": "It needs the right to write: the stack's parameter WriterArns gives it, or `rights` in the file of " +
			"berth up --credentials.",
		"DeleteNodegroup": "the right to manage node groups: the stack's parameter NodeGroupManagerArns gives it",
	} {
		if err := (&Policy{}).Check(ann, operation); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", operation, err, want)
		}
	}
}

func TestAnEmptyPolicyOnlyReadsAndNoneChecksNothing(t *testing.T) {
	for operation, right := range map[string]Right{"StopTask": Write, "DeleteNodegroup": ManageNodeGroups,
		"GetTaskProtection": Read} {
		if err := (&Policy{}).Check(ann, operation); (err == nil) != (right == Read) {
			t.Errorf("%s with an empty policy: %v", operation, err)
		}
		if err := (*Policy)(nil).Check("", operation); err != nil {
			t.Errorf("%s without a policy: %v", operation, err)
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, principal string
		matches            bool
	}{
		{ann, ann, true}, {ann, strings.ToUpper(ann), false}, {"*", ann, true}, {"*", ci, true},
		{"arn:aws:iam::123456789012:user/*", ann, true}, {"arn:aws:iam::*:user/ann", ann, true},
		{"*:user/bob", ann, false},
		{"arn:aws:iam::123456789012:user/*/ann", ann, false}, {"a*:iam*ann*", ann, true},
		{"arn:aws:iam::123456789012:user/a", ann, false},
		{ciRole, ci, true}, {pathed, ci, true}, {another, ci, false},
		{"arn:aws:iam::123456789012:role/teams/*", ci, false}, {ci, ci, true},
		{"arn:aws:iam::123456789012:role/*", ci, true},
		{"arn:aws:sts::123456789012:assumed-role/deployer/*", ci, true},
		{"arn:aws:iam::123456789012:role/deploy", ci, false},
		{ciRole, "arn:aws:sts::123456789012:assumed-role/deployer2/x", false},
		{ciRole, "arn:aws:sts::123456789012:assumed-role/x/deployer", false},
		{ciRole, "arn:aws:sts::123456789012:federated-user/deployer", false}, {"", ann, false}, {"", "", false},
		{"*", "", false},
		{"*deployer", "arn:aws:sts::123456789012:assumed-role/reader/deployer", false}, {"*deployer", ci, true},
		{"arn:aws:*/ann", "arn:aws:sts::123456789012:assumed-role/reader/ann", false},
	} {
		if got := matchesAny([]string{c.pattern}, c.principal); got != c.matches {
			t.Errorf("%q matches %q: %v, want %v", c.pattern, c.principal, got, c.matches)
		}
	}
}
