package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/autoscaling"
)

func TestGroupLaunchesFromItsTemplate(t *testing.T) {
	full := false
	w := newGroupWorld(t, 3, func(string, int64) autoscaling.LaunchFault {
		if full {
			return autoscaling.LaunchFault{Reason: "Could not launch On-Demand Instances. InsufficientInstanceCapacity - We have none. Launching EC2 instance failed."}
		}
		return autoscaling.LaunchFault{}
	})
	w.clock.advance(launch)
	g := w.group()
	first := g.Template
	if g.Instances[0].Template != first || len(g.Zones) != 3 {
		t.Fatalf("instances are of %s in %v, the group launches %s", g.Instances[0].Template, g.Zones, first)
	}
	old, err := w.Templates.LaunchTemplate(t.Context(), cluster.TemplateRef{Name: "berth/g"})
	if err != nil || old.String() != first || old.Image != "ami-1" {
		t.Fatal(old, err)
	}
	made, err := w.Templates.CreateVersion(t.Context(),
		cluster.NewTemplateVersion{Template: old.ID, From: cluster.TemplateRef{ID: old.ID}, Description: "d",
			Image: "ami-2"})
	if err != nil || made.Version != 2 || made.Image != "ami-2" {
		t.Fatal(made, err)
	}
	found, err := w.Templates.FindVersion(t.Context(), old.ID, "d")
	if err != nil || found == nil || *found != *made {
		t.Fatal(found, err)
	}
	if none, err := w.Templates.FindVersion(t.Context(), old.ID, "other"); none != nil || err != nil {
		t.Fatal(none, err)
	}
	if err := w.Groups.UseTemplate(t.Context(), "g", made.String()); err != nil {
		t.Fatal(err)
	}
	if err := w.Groups.SetSizes(t.Context(), "g", cluster.SizesChange{Min: new(1), Max: new(9),
		Desired: new(4)}); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(launch)
	g = w.group()
	count := map[string]int{}
	for _, i := range g.Instances {
		count[i.Template]++
	}
	if count[first] != 3 || count[made.String()] != 1 || g.Min != 1 || g.Desired != 4 {
		t.Fatalf("%v in a group of %d to %d, desired %d", count, g.Min, g.Max, g.Desired)
	}

	t.Run("ReportsFailedLaunches", func(t *testing.T) {
		full = true
		since := w.clock.Now()
		if err := w.Groups.SetSizes(t.Context(), "g",
			cluster.SizesChange{Min: new(1), Max: new(9), Desired: new(5)}); err != nil {
			t.Fatal(err)
		}
		w.clock.advance(retry)
		got, err := w.Groups.FailedLaunches(t.Context(), "g", since)
		if err != nil || len(got) != 2 || got[0].Code != "InsufficientInstanceCapacity" || !got[0].At.After(got[1].At) {
			t.Fatal(got, err)
		}
		if later, err := w.Groups.FailedLaunches(t.Context(), "g", w.clock.Now().Add(time.Second)); len(later) > 0 ||
			err != nil {
			t.Fatal(later, err)
		}
	})
	t.Run("Refuses", func(t *testing.T) {
		_, noTemplate := w.Templates.LaunchTemplate(t.Context(), cluster.TemplateRef{ID: "lt-0"})
		_, noVersion := w.Templates.LaunchTemplate(t.Context(), cluster.TemplateRef{ID: old.ID, Version: "9"})
		_, taken := w.Templates.AddTemplate("berth/g", "ami-3")
		for err, code := range map[error]cluster.Code{
			noTemplate: "InvalidLaunchTemplateId.NotFound", noVersion: "InvalidLaunchTemplateId.VersionNotFound",
			taken: "InvalidLaunchTemplateName.AlreadyExistsException",
			w.Groups.UseTemplate(t.Context(), "g",
				"lt-0:1"): "ValidationError",
			w.Groups.SetSizes(t.Context(), "g", cluster.SizesChange{Min: new(2), Max: new(9),
				Desired: new(1)}): "ValidationError",
			w.Groups.SetSizes(t.Context(), "none",
				cluster.SizesChange{Max: new(1)}): "ValidationError",
		} {
			if cluster.ErrorCode(err) != code {
				t.Errorf("got %v, want %s", err, code)
			}
		}
	})
}

// As on EC2, a published image of another architecture than the instance type's is not launched.
func TestImagesOfAnotherArchitecture(t *testing.T) {
	w := newGroupWorld(t, 1, nil)
	const path = "/aws/service/ecs/optimized-ami/amazon-linux-2023"
	images, err := w.Templates.ReadParameters(t.Context(), []string{path + "/recommended/image_id",
		path + "/arm64/recommended/image_id"})
	if err != nil || len(images) != 2 {
		t.Fatal(images, err)
	}
	old := cluster.TemplateRef{ID: strings.Split(w.group().Template, ":")[0]}
	for parameter, says := range map[string]string{path + "/recommended/image_id": "<nil>",
		path + "/arm64/recommended/image_id": "You must use a valid fully-formed launch template. The architecture " +
			"'x86_64' of the specified instance type does not match the architecture 'arm64'"} {
		made, err := w.Templates.CreateVersion(t.Context(), cluster.NewTemplateVersion{Template: old.ID, From: old,
			Image: images[parameter]})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(w.Groups.UseTemplate(t.Context(), "g", made.String())); !strings.Contains(got, says) {
			t.Errorf("%s: %s, want %s", parameter, got, says)
		}
	}
}

func TestLaunchFailureIsParsedFromItsMessage(t *testing.T) {
	for message, want := range map[string]string{
		"Could not launch On-Demand Instances. VcpuLimitExceeded - You have requested more": "VcpuLimitExceeded: You have requested more",
		"InvalidAMIID.NotFound - The image id does not exist":                               "InvalidAMIID.NotFound: The image id does not exist",
		"The launch template is gone":                                                       ": The launch template is gone",
		"Instance i-1 - gone":                                                               ": Instance i-1 - gone",
	} {
		if got := cluster.ParseLaunchFailure(message); fmt.Sprint(got.Code, ": ", got.Message) != want {
			t.Errorf("%q: got %+v", message, got)
		}
	}
}
