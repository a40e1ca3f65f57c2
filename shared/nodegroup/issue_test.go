package nodegroup_test

import (
	"errors"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

// A group fits a node group if its one launch template names a version (N1).
func TestUnfitIssue(t *testing.T) {
	group := func(template string, own bool) []*cluster.AutoScalingGroup {
		return []*cluster.AutoScalingGroup{{Template: template, OwnTemplates: own}}
	}
	for name, c := range map[string]struct {
		found []*cluster.AutoScalingGroup
		code  cluster.IssueCode
		want  string
	}{
		"Fits":          {group("lt-1:4", false), "", ""},
		"FitsByDefault": {group("lt-1:$Default", false), "", ""},
		"NotThere":      {nil, cluster.IssueGroupNotFound, "There is no Auto Scaling group asg"},
		"NoTemplate":    {group("", false), cluster.IssueGroup, "has no launch template"},
		"Latest":        {group("lt-1:$Latest", false), cluster.IssueGroup, "launches $Latest"},
		"SeveralTemplates": {group("lt-1:4", true), cluster.IssueGroup,
			"launch templates of their own; there must be one"},
	} {
		t.Run(name, func(t *testing.T) {
			issue := nodegroup.UnfitIssue("asg", c.found)
			if c.want == "" {
				if issue != nil {
					t.Errorf("got %+v", issue)
				}
				return
			}
			if issue == nil || issue.Code != c.code || !strings.Contains(issue.Message, c.want) ||
				strings.Join(issue.Resources, " ") != "asg" {
				t.Errorf("got %+v, want %s: %s", issue, c.code, c.want)
			}
		})
	}
	issue := nodegroup.ElsewhereIssue("asg", "i-1", "prod")
	if issue.Code != cluster.IssueGroup || strings.Join(issue.Resources, " ") != "asg i-1" ||
		issue.Message != "Instance i-1 of the Auto Scaling group asg has registered with cluster prod" {
		t.Errorf("got %+v", issue)
	}
}

// A permanent error becomes an issue with EKS's code for it; any other error is returned.
func TestErrorsBecomeIssues(t *testing.T) {
	refused := func(code cluster.Code) error { return cluster.Errorf(code, "no") }
	for name, c := range map[string]struct {
		err            error
		group, version cluster.IssueCode
	}{
		"Denied":     {refused("AccessDenied"), cluster.IssueAccessDenied, cluster.IssueAccessDenied},
		"NoTemplate": {refused("InvalidLaunchTemplateId.NotFound"), cluster.IssueGroup, cluster.IssueNoTemplate},
		"NoVersion": {refused("InvalidLaunchTemplateId.VersionNotFound"), cluster.IssueGroup,
			cluster.IssueTemplateVersion},
		"OtherVersion":  {refused("UnsupportedVersion"), cluster.IssueGroup, cluster.IssueTemplate},
		"Validation":    {refused("ValidationError"), cluster.IssueGroup, cluster.IssueTemplate},
		"Throttled":     {refused("Throttling"), "", ""},
		"NotFromTheAPI": {errors.New("connection reset"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(what string, issue *cluster.NodeGroupIssue, err error, want cluster.IssueCode,
				resource string) {
				t.Helper()
				switch {
				case want == "" && (issue != nil || !errors.Is(err, c.err)):
					t.Errorf("%s: %+v, %v, want the error", what, issue, err)
				case want != "" && (issue == nil || err != nil || issue.Code != want ||
					strings.Join(issue.Resources, " ") != resource ||
					!strings.HasSuffix(issue.Message, ": no")):
					t.Errorf("%s: %+v, %v, want %s of %s", what, issue, err, want, resource)
				}
			}
			issue, err := nodegroup.GroupIssue(c.err, "asg")
			check("group", issue, err, c.group, "asg")
			issue, err = nodegroup.TemplateIssue(c.err, "lt-1")
			check("template", issue, err, c.version, "lt-1")
		})
	}
}

// An update fails with an action that was finally refused. One on a single node fails it only for
// lack of permissions: the node may be gone.
func TestActionError(t *testing.T) {
	node := nodegroup.Action{Kind: nodegroup.Drain, Instance: "i-1"}
	template := nodegroup.Action{Kind: nodegroup.UseTemplate, Template: "lt-1:4"}
	group := nodegroup.Action{Kind: nodegroup.Resize, Max: 4, Desired: 3}
	for name, c := range map[string]struct {
		action   nodegroup.Action
		code     cluster.Code
		want     cluster.UpdateErrorCode
		resource string
	}{
		"Node":          {node, "InvalidParameterException", "", ""},
		"NodeDenied":    {node, "AccessDenied", cluster.UpdateAccessDenied, "i-1"},
		"Template":      {template, "ValidationError", cluster.OperationNotPermitted, "lt-1:4"},
		"Group":         {group, "ValidationError", cluster.OperationNotPermitted, "asg"},
		"GroupDenied":   {group, "AccessDenied", cluster.UpdateAccessDenied, "asg"},
		"GroupThrottle": {group, "Throttling", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := nodegroup.ActionError("asg", c.action, cluster.Errorf(c.code, "no"))
			if c.want == "" {
				if e != nil {
					t.Errorf("got %+v", e)
				}
				return
			}
			if e == nil || e.Code != c.want || strings.Join(e.Resources, " ") != c.resource ||
				e.Message != c.action.String()+": "+string(c.code)+": no" {
				t.Errorf("got %+v", e)
			}
		})
	}
	if e := nodegroup.RefusalError(&cluster.Error{Code: "X", Message: "no"}, ""); len(e.Resources) > 0 {
		t.Errorf("an error about nothing names %q", e.Resources)
	}
	if e := nodegroup.GroupGoneError("asg"); e.Code != cluster.OperationNotPermitted || e.Resources[0] != "asg" {
		t.Errorf("got %+v", e)
	}
}

// Actions are named in messages with what they are about.
func TestActionsInWords(t *testing.T) {
	for want, a := range map[string]nodegroup.Action{
		"create template":                    {Kind: nodegroup.CreateTemplate, Instance: "i-1"},
		"use template lt-1:4":                {Kind: nodegroup.UseTemplate, Template: "lt-1:4"},
		"resize to maximum 4, desired 3":     {Kind: nodegroup.Resize, Max: 4, Desired: 3},
		"stop tasks a b on i-1":              {Kind: nodegroup.StopTasks, Instance: "i-1", Tasks: []string{"a", "b"}},
		"terminate i-1, one less desired":    {Kind: nodegroup.Terminate, Instance: "i-1", Decrement: true},
		string(nodegroup.Terminate) + " i-1": {Kind: nodegroup.Terminate, Instance: "i-1"},
		string(nodegroup.Drain) + " i-1":     {Kind: nodegroup.Drain, Instance: "i-1"},
	} {
		if a.String() != want {
			t.Errorf("got %q, want %q", a, want)
		}
	}
}

// The image of a target comes from the template or from the releaseVersion, not from both and not
// from neither (EKS user guide, custom launch templates).
func TestImageOfATarget(t *testing.T) {
	template := func(image string) *cluster.LaunchTemplate {
		return &cluster.LaunchTemplate{ID: "lt-1", Name: "mine", Version: 4, Image: image}
	}
	for name, c := range map[string]struct {
		target cluster.UpdateTarget
		image  string
		want   string
		code   cluster.Code
	}{
		"OfTheTemplate":       {cluster.UpdateTarget{}, "ami-1", "ami-1", ""},
		"OfTheReleaseVersion": {cluster.UpdateTarget{ReleaseVersion: "ami-2"}, "", "ami-2", ""},
		"WithAVersion":        {cluster.UpdateTarget{ReleaseVersion: "ami-2", Version: "1.31"}, "", "ami-2", ""},
		"Neither":             {cluster.UpdateTarget{}, "", "", cluster.CodeInvalidParameter},
		"Both":                {cluster.UpdateTarget{ReleaseVersion: "ami-2"}, "ami-1", "", cluster.CodeInvalidRequest},
		"TemplateAndVersion":  {cluster.UpdateTarget{Version: "1.31"}, "ami-1", "", cluster.CodeInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := nodegroup.TargetFromTemplate(c.target, template(c.image))
			if (err != nil) != (c.code != "") || err != nil && cluster.ErrorCode(err) != c.code {
				t.Fatalf("%v, want %s", err, c.code)
			}
			if c.code == "" && (got.Image != c.want ||
				got.SourceTemplate+" "+got.SourceName+" "+got.SourceVersion != "lt-1 mine 4") {
				t.Errorf("got %+v", got)
			}
		})
	}
	for name, c := range map[string]struct{ release, image, want string }{
		"Left": {"", "ami-1", "ami-1"}, "Same": {"ami-1", "ami-1", "ami-1"}, "Other": {"ami-2", "ami-1", ""},
		"NameOfARelease": {"1.31-2026", "ami-1", "ami-1"}, "Parameter": {"ami-2", "resolve:ssm:x", "resolve:ssm:x"},
	} {
		t.Run("Regular"+name, func(t *testing.T) {
			got, err := nodegroup.RegularTarget(cluster.UpdateTarget{ReleaseVersion: c.release}, template(c.image))
			if (err != nil) != (c.want == "") || err == nil && got.Image != c.want {
				t.Errorf("got %+v, %v, want %s", got, err, c.want)
			}
		})
	}
}

// A launch template is named by its id if that is known, and otherwise by its name.
func TestSourceTemplate(t *testing.T) {
	both := nodegroup.SourceTemplate(cluster.UpdateTarget{SourceTemplate: "lt-1", SourceName: "mine",
		SourceVersion: "4"})
	if both != (cluster.TemplateRef{ID: "lt-1", Version: "4"}) {
		t.Errorf("got %+v", both)
	}
	name := nodegroup.SourceTemplate(cluster.UpdateTarget{SourceName: "mine", SourceVersion: "4"})
	if name != (cluster.TemplateRef{Name: "mine", Version: "4"}) {
		t.Errorf("got %+v", name)
	}
}
