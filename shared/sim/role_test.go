package sim_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const trust = `{"Version": "2012-10-17", "Statement": []}`

// identity asks IAM, and returns the answer of a call that must succeed.
func (w *groupWorld) identity(action string, fields ...string) string {
	w.t.Helper()
	status, answer := w.asked("2010-05-08", action, fields...)
	if status != http.StatusOK {
		w.t.Fatalf("%s %q: %s", action, fields, answer)
	}
	return answer
}

// refused asks IAM something that it must refuse with the code.
func (w *groupWorld) refused(code, action string, fields ...string) {
	w.t.Helper()
	if status, answer := w.asked("2010-05-08", action, fields...); status/100 != 4 ||
		!strings.Contains(answer, "<Code>"+code+"</Code>") {
		w.t.Errorf("%s %q: %d %s, want %s", action, fields, status, answer, code)
	}
}

// A role goes through what tools do with the role of machines: it is made, gets policies, is used
// by an instance profile, and is deleted once nothing uses it.
func TestRolesOfMachines(t *testing.T) {
	const managed = "arn:aws:iam::aws:policy/service-role/AmazonEC2ContainerServiceforEC2Role"
	w := newGroupWorld(t, 0, nil)
	w.wantIn(w.identity("CreateRole", "RoleName", "node", "AssumeRolePolicyDocument", trust, "Path", "/berth/",
		"Tags.member.1.Key", "team", "Tags.member.1.Value", "shop"),
		"<Arn>arn:aws:iam::123456789012:role/berth/node</Arn>", "<MaxSessionDuration>3600</MaxSessionDuration>",
		"<member><Key>team</Key><Value>shop</Value></member>")
	w.identity("AttachRolePolicy", "RoleName", "node", "PolicyArn", managed)
	w.identity("AttachRolePolicy", "RoleName", "node", "PolicyArn", managed) // once is enough
	w.identity("PutRolePolicy", "RoleName", "node", "PolicyName", "logs", "PolicyDocument", trust)
	if got := w.identity("ListAttachedRolePolicies", "RoleName", "node"); strings.Count(got, managed) != 1 {
		t.Errorf("attached policies: %s", got)
	}
	w.wantIn(w.identity("ListRolePolicies", "RoleName", "node"), "<member>logs</member>")
	policy := w.identity("GetRolePolicy", "RoleName", "node", "PolicyName", "logs")
	_, policy, _ = strings.Cut(policy, "<PolicyDocument>")
	policy, _, _ = strings.Cut(policy, "</PolicyDocument>")
	if plain, err := url.PathUnescape(policy); err != nil || plain != trust {
		t.Errorf("the policy is %q, %v, want %q", plain, err, trust)
	}
	w.identity("CreateInstanceProfile", "InstanceProfileName", "node", "Path", "/berth/")
	w.identity("AddRoleToInstanceProfile", "InstanceProfileName", "node", "RoleName", "node")
	w.wantIn(w.identity("ListInstanceProfilesForRole", "RoleName", "node"),
		"<Arn>arn:aws:iam::123456789012:instance-profile/berth/node</Arn>")
	for _, undo := range [][]string{
		{"RemoveRoleFromInstanceProfile", "InstanceProfileName", "node", "RoleName", "node"},
		{"DetachRolePolicy", "RoleName", "node", "PolicyArn", managed},
		{"DeleteRolePolicy", "RoleName", "node", "PolicyName", "logs"},
	} {
		w.refused("DeleteConflict", "DeleteRole", "RoleName", "node")
		w.identity(undo[0], undo[1:]...)
	}
	w.identity("DeleteRole", "RoleName", "node")
	w.refused("NoSuchEntity", "GetRole", "RoleName", "node")
}

// A wrong call changes nothing.
func TestRolesRefuse(t *testing.T) {
	w := newGroupWorld(t, 0, nil)
	w.identity("CreateRole", "RoleName", "node", "AssumeRolePolicyDocument", trust)
	before := w.identity("GetRole", "RoleName", "node")
	w.refused("EntityAlreadyExists", "CreateRole", "RoleName", "node", "AssumeRolePolicyDocument", "{}")
	w.refused("MalformedPolicyDocument", "CreateRole", "RoleName", "other", "AssumeRolePolicyDocument", "{")
	w.refused("ValidationError", "CreateRole", "RoleName", "a b", "AssumeRolePolicyDocument", "{}")
	w.refused("ValidationError", "CreateRole", "RoleName", "other", "AssumeRolePolicyDocument", "{}",
		"MaxSessionDuration", "60")
	w.refused("ValidationError", "CreateRole", "RoleName", "other", "AssumeRolePolicyDocument", "{}",
		"PermissionsBoundary", "arn:aws:iam::aws:policy/x")
	w.refused("MalformedPolicyDocument", "UpdateAssumeRolePolicy", "RoleName", "node", "PolicyDocument", "{")
	w.refused("MalformedPolicyDocument", "PutRolePolicy", "RoleName", "node", "PolicyName", "p", "PolicyDocument", "{")
	w.refused("InvalidInput", "AttachRolePolicy", "RoleName", "node", "PolicyArn", "everything")
	w.refused("NoSuchEntity", "DetachRolePolicy", "RoleName", "node", "PolicyArn", "arn:aws:iam::aws:policy/x")
	w.refused("NoSuchEntity", "GetRolePolicy", "RoleName", "node", "PolicyName", "p")
	w.refused("NoSuchEntity", "TagRole", "RoleName", "other", "Tags.member.1.Key", "a")
	w.refused("NoSuchEntity", "GetRole", "RoleName", "other")
	if after := w.identity("GetRole", "RoleName", "node"); after != before {
		t.Errorf("the role is %s, was %s", after, before)
	}
	w.identity("TagRole", "RoleName", "node", "Tags.member.1.Key", "a", "Tags.member.1.Value", "b")
	w.wantIn(w.identity("GetRole", "RoleName", "node"), "<Key>a</Key>")
	w.identity("UntagRole", "RoleName", "node", "TagKeys.member.1", "a")
	w.identity("UpdateAssumeRolePolicy", "RoleName", "node", "PolicyDocument", "{}")
	w.wantIn(w.identity("GetRole", "RoleName", "node"),
		"<AssumeRolePolicyDocument>%7B%7D</AssumeRolePolicyDocument>")
}
