package handler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

func TestAPI_CapacityProvidersShareNoGroup(t *testing.T) {
	t.Run("AtTheSameTime", func(t *testing.T) {
		w := newWorld(t)
		slow := another(w.api.Dependencies)
		slow.State = &afterGet{Store: w.state, key: state.GroupUseKey("g"), then: func() {
			if _, err := w.api.CapacityProviders.CreateCapacityProvider(ctx, providerRow("fast", "g")); err != nil {
				t.Fatal(err)
			}
		}}
		_, err := slow.CapacityProviders.CreateCapacityProvider(ctx, providerRow("slow", "g"))
		wantCode(t, err, cluster.CodeClient, "already in use by the capacity provider fast")
	})
	t.Run("UntilItIsDeleted", func(t *testing.T) {
		w := newWorld(t)
		for _, name := range []string{"p", "q", "p"} {
			if _, err := w.api.CapacityProviders.CreateCapacityProvider(ctx, providerRow(name, "g")); err != nil {
				t.Fatal(err)
			}
			if _, err := w.api.CapacityProviders.DeleteCapacityProvider(ctx, name); err != nil {
				t.Fatal(err)
			}
			use, err := w.state.Get(ctx, state.GroupUseKey("g"))
			want(t, "who has the group", fmt.Sprint(use, err), "<nil> <nil>")
		}
	})
}

// A misspelled capacity provider is refused in ECS's words, then with the nearest that exists.
func TestAPI_UnknownCapacityProviderNamesTheNearest(t *testing.T) {
	const words = "The specified capacity provider does not exist. Specify a valid name or ARN and try again."
	w := newWorld(t)
	for _, name := range []string{"spot", "spit"} {
		if _, err := w.api.CapacityProviders.CreateCapacityProvider(ctx, providerRow(name, name+"s")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.api.CapacityProviders.DeleteCapacityProvider(ctx, "spit"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"spto": words + ` The nearest capacity provider is "spot".`, "on-demand": words,
	} {
		_, err := w.api.CapacityProviders.CapacityProviderTags(ctx, name)
		if refused := new(cluster.Error); !errors.As(err, &refused) || refused.Message != want ||
			refused.Code != cluster.CodeInvalidParameter {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
		// Terraform takes this code with these words for a provider that is deleted already.
		_, err = w.api.CapacityProviders.DeleteCapacityProvider(ctx, name)
		wantCode(t, err, cluster.CodeClient, want)
		_, err = w.api.CapacityProviders.UpdateCapacityProvider(ctx, operation.UpdateCapacityProvider{Name: name})
		wantCode(t, err, cluster.CodeInvalidParameter, want)
	}
}

// A CREATE_FAILED provider leaves its group to others. An update claims the group again unless
// somebody else has.
func TestAPI_FailedCapacityProviderHasNoGroup(t *testing.T) {
	failed := func(t *testing.T) *scaled {
		s := newScaled(t, nil)
		s.groups["h"] = &cluster.AutoScalingGroup{Name: "h", Max: 10} // new instances are not protected
		if _, err := s.api.CapacityProviders.CreateCapacityProvider(ctx, providerRow("bad", "h")); err != nil {
			t.Fatal(err)
		}
		s.look(t)
		want(t, "status", s.described(t, "bad").UpdateStatus, cluster.ProviderCreateFailed)
		return s
	}
	mended := operation.UpdateCapacityProvider{Name: "bad", Protection: new(false)}
	t.Run("LeavesItToAnother", func(t *testing.T) {
		s := failed(t)
		if _, err := s.api.CapacityProviders.CreateCapacityProvider(ctx, providerRow("good", "h")); err != nil {
			t.Fatal(err)
		}
		s.groups["h"].Protects = true
		s.look(t)
		want(t, "status", s.described(t, "good").UpdateStatus, cluster.ProviderCreated)
		_, err := s.api.CapacityProviders.UpdateCapacityProvider(ctx, mended)
		wantCode(t, err, cluster.CodeClient, "already in use by the capacity provider good")
		if _, err := s.api.CapacityProviders.DeleteCapacityProvider(ctx, "bad"); err != nil {
			t.Fatal(err)
		}
		_, err = s.api.CapacityProviders.CreateCapacityProvider(ctx, providerRow("third", "h"))
		wantCode(t, err, cluster.CodeClient, "already in use by the capacity provider good")
	})
	t.Run("ClaimsItAgain", func(t *testing.T) {
		s := failed(t)
		if _, err := s.api.CapacityProviders.UpdateCapacityProvider(ctx, mended); err != nil {
			t.Fatal(err)
		}
		_, err := s.api.CapacityProviders.CreateCapacityProvider(ctx, providerRow("good", "h")) // nobody has looked yet
		wantCode(t, err, cluster.CodeClient, "already in use by the capacity provider bad")
		s.look(t)
		want(t, "status", s.described(t, "bad").UpdateStatus, cluster.ProviderUpdated)
	})
	t.Run("AtTheSameTime", func(t *testing.T) {
		s := failed(t)
		slow := another(s.api.Dependencies)
		slow.State = &afterGet{Store: s.state, key: state.ProviderKey("bad"), then: func() {
			if _, err := s.api.CapacityProviders.UpdateCapacityProvider(ctx, mended); err != nil {
				t.Fatal(err)
			}
		}}
		_, err := slow.CapacityProviders.CreateCapacityProvider(ctx, providerRow("good", "h"))
		wantCode(t, err, cluster.CodeClient, "already in use by the capacity provider bad")
	})
}

// hindered are groups that cannot be described while err is set. before runs before a hook is
// deleted.
type hindered struct {
	*fakeGroups
	err    error
	before func()
}

func (h *hindered) DescribeGroups(c context.Context, names []string) ([]*cluster.AutoScalingGroup, error) {
	if h.err != nil {
		return nil, h.err
	}
	return h.fakeGroups.DescribeGroups(c, names)
}

func (h *hindered) DeleteLifecycleHook(c context.Context, group, name string) error {
	if before := h.before; before != nil {
		h.before = nil
		before()
	}
	return h.fakeGroups.DeleteLifecycleHook(c, group, name)
}

func TestAPI_ClusterProviders(t *testing.T) {
	t.Run("ARefusedChangeClaimsNothing", func(t *testing.T) {
		s := newScaled(t, nil)
		s.minute(1)
		s.groups["h"] = &cluster.AutoScalingGroup{Name: "h", Max: 10, Protects: true}
		if _, err := s.api.CapacityProviders.CreateCapacityProvider(ctx, providerRow("q", "h")); err != nil {
			t.Fatal(err)
		}
		s.minute(1)
		_, err := s.api.ClusterProviders.PutClusterProviders(ctx, prod, []string{"p", "q", "none"}, nil)
		wantCode(t, err, cluster.CodeInvalidParameter, "does not exist")
		s.ecs.clusters["other"] = true
		if err := s.api.Clusters.ClusterCreated(ctx, "other"); err != nil {
			t.Fatal(err)
		}
		_, err = s.api.ClusterProviders.PutClusterProviders(ctx, "other", []string{"q"}, nil)
		want(t, "error of the cluster that may have it", err, nil)
	})
	t.Run("TheLoserOfARaceClaimsNothing", func(t *testing.T) {
		s := newScaled(t, nil)
		s.minute(1)
		if _, err := s.api.CapacityProviders.CreateCapacityProvider(ctx, providerRow("q", "h")); err != nil {
			t.Fatal(err)
		}
		slow := another(s.api.Dependencies)
		slow.State = &afterGet{Store: s.state, key: state.ProviderKey("q"), then: func() { s.attach(t, "p") }}
		_, err := slow.ClusterProviders.PutClusterProviders(ctx, prod, []string{"p", "q"}, nil)
		wantCode(t, err, cluster.CodeUpdateInProgress, "busy")
		gone, err := s.api.CapacityProviders.DeleteCapacityProvider(ctx, "q")
		want(t, "error", err, nil)
		want(t, "deleted", gone.UpdateStatus, cluster.ProviderDeleted)
	})
	t.Run("FailWhileTheGroupsMayNotBeDescribed", func(t *testing.T) {
		s := newScaled(t, nil)
		s.look(t)
		s.attach(t, "p")
		s.function.Groups = &hindered{fakeGroups: s.fakeGroups, err: cluster.Errorf(cluster.CodeAccessDenied, "no")}
		_ = s.function.RunSchedule(ctx, "scaling")
		want(t, "status", s.status(t), cluster.AttachmentsFailed)
		_, err := s.api.ClusterProviders.PutClusterProviders(ctx, prod, nil, nil)
		want(t, "error of who takes it away", err, nil)
		s.function.Groups = s.fakeGroups
		s.minute(1)
		want(t, "status without it", s.status(t), cluster.AttachmentsComplete)
	})
	t.Run("CanBeChangedWhileNothingGetsOn", func(t *testing.T) {
		s := newScaled(t, nil)
		s.look(t)
		s.attach(t, "p")
		s.function.Groups = &hindered{fakeGroups: s.fakeGroups, err: errors.New("no answer")}
		for range 5 {
			_, err := s.api.ClusterProviders.PutClusterProviders(ctx, prod, nil, nil)
			wantCode(t, err, cluster.CodeUpdateInProgress, "busy")
			_ = s.function.RunSchedule(ctx, "scaling")
			s.advance(time.Minute)
		}
		_, err := s.api.ClusterProviders.PutClusterProviders(ctx, prod, nil, nil)
		want(t, "error after five minutes", err, nil)
	})
	t.Run("OneThatReturnsStays", func(t *testing.T) {
		s := newScaled(t, nil)
		s.minute(1)
		s.attach(t)
		s.advance(5 * time.Minute)
		s.function.Groups = &hindered{fakeGroups: s.fakeGroups, before: func() { s.attach(t, "p") }}
		_ = s.function.RunSchedule(ctx, "scaling")
		s.minute(1)
		want(t, "status", s.status(t), cluster.AttachmentsComplete)
		want(t, "clusters", fmt.Sprint(s.described(t, "p").Clusters), "[prod]")
		want(t, "alarms and hooks", len(s.alarms)+len(s.hooks), 3)
	})
	t.Run("OneWithoutAGroupCanBeRemoved", func(t *testing.T) {
		s := newScaled(t, nil)
		s.minute(1)
		delete(s.groups, "g")
		s.attach(t)
		s.minute(1)
		want(t, "status", s.status(t), cluster.AttachmentsComplete)
		want(t, "alarms left", len(s.alarms), 0)
		wantCount(t, "clusters", s.described(t, "p").Clusters, 0)
	})
}

func TestManagedScaling_TagOfItsGroup(t *testing.T) {
	s := newScaled(t, nil)
	g := s.groups["g"]
	t.Run("StaysWhateverItsValue", func(t *testing.T) {
		for _, value := range []string{"", "yes"} {
			g.Tags = map[string]string{cluster.ManagedTag: value}
			s.minute(1)
			want(t, "tag", g.Tags[cluster.ManagedTag], value)
		}
	})
	t.Run("ComesBack", func(t *testing.T) {
		g.Tags = nil
		s.minute(1)
		want(t, "tag", g.Tags[cluster.ManagedTag], "true")
	})
	t.Run("IsNamedWhereItCannotBeSet", func(t *testing.T) {
		g.Tags = nil
		s.untaggable = cluster.Errorf(cluster.CodeAccessDenied, "no")
		_ = s.function.RunSchedule(ctx, "scaling")
		a, err := s.api.ClusterProviders.ClusterAttachments(ctx, prod)
		if err != nil || !strings.Contains(a.Attached.AttachmentProblems["p"],
			"tagging Auto Scaling group g with AmazonECSManaged: AccessDeniedException: no") {
			t.Errorf("%v: the attachments failed for %q", err, a.Attached.AttachmentProblems)
		}
	})
	t.Run("ComesBackBeforeAllIsTakenBack", func(t *testing.T) {
		g.Tags = nil
		s.attach(t)
		s.minute(1)
		want(t, "tag", g.Tags[cluster.ManagedTag], "true")
		want(t, "status", s.status(t), cluster.AttachmentsComplete)
	})
}
