package handler_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// mailbox is the queue by which dispatch wakes managed scaling. It fails while err is set.
type mailbox struct {
	messages []state.Message
	err      error
}

func (m *mailbox) Send(_ context.Context, body []byte, delay time.Duration) error {
	if delay != 0 {
		return errors.New("a wake-up that waits")
	}
	if m.err == nil {
		m.messages = append(m.messages, state.Message{ID: string(body), Body: body})
	}
	return m.err
}

// newWoken returns a world whose managed scaling is woken by changes of rows, and never by a
// schedule, and the function that delivers the wake-ups. What managed scaling then writes itself
// must not wake it.
func newWoken(t *testing.T) (s *scaled, deliver func()) {
	t.Helper()
	s = newScaled(t, nil)
	box := &mailbox{}
	s.dispatch.Scaling = box
	s.look(t)
	wake := func() (waiting []state.Message) {
		records := s.act
		s.act = nil
		s.acts(s.dispatch, records)
		waiting, box.messages = box.messages, nil
		return waiting
	}
	wake()
	return s, func() {
		t.Helper()
		if retry := s.function.HandleMessages(ctx, wake()); len(retry) > 0 {
			t.Errorf("to be delivered again: %v", retry)
		}
		wantCount(t, "wake-ups by its own writes", wake(), 0)
	}
}

func (s *scaled) deleteProvider(t *testing.T, name string) cluster.ProviderStatus {
	t.Helper()
	p, err := s.api.CapacityProviders.DeleteCapacityProvider(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	return p.UpdateStatus
}

// Clients delete providers right after they have taken them from their cluster, and wait for
// INACTIVE.
func TestAPI_DeleteCapacityProvider(t *testing.T) {
	t.Run("WaitsForItsAttachment", func(t *testing.T) {
		s, deliver := newWoken(t)
		want(t, "of one that the cluster has", s.deleteProvider(t, "p"), cluster.ProviderDeleteFailed)
		s.attach(t)
		want(t, "of one that it had", s.deleteProvider(t, "p"), cluster.ProviderDeleting)
		want(t, "inactive at first", s.described(t, "p").Inactive, false)
		deliver()
		p := s.described(t, "p")
		want(t, "status", p.UpdateStatus, cluster.ProviderDeleted)
		want(t, "inactive", p.Inactive && p.Expires > 0, true)
		want(t, "alarms and hooks left", len(s.alarms)+len(s.hooks), 0)
		want(t, "attachments", s.status(t), cluster.AttachmentsComplete)
		if _, err := s.api.CapacityProviders.CreateCapacityProvider(ctx, providerRow("q", "g")); err != nil {
			t.Errorf("its group is not free: %v", err)
		}
	})
	t.Run("WaitsForADeletedCluster", func(t *testing.T) {
		s, deliver := newWoken(t)
		s.ecs.clusters[prod] = false
		if err := s.api.Clusters.ClusterDeleted(ctx, prod); err != nil {
			t.Fatal(err)
		}
		want(t, "status", s.deleteProvider(t, "p"), cluster.ProviderDeleting)
		deliver()
		want(t, "status", s.described(t, "p").UpdateStatus, cluster.ProviderDeleted)
		want(t, "alarms and hooks left", len(s.alarms)+len(s.hooks), 0)
	})
	t.Run("MeanwhileNothingUsesOrChangesIt", func(t *testing.T) {
		s, deliver := newWoken(t)
		s.attach(t)
		s.clock.now = s.clock.now.Add(time.Hour) // the cluster is not busy any longer
		s.deleteProvider(t, "p")
		_, err := s.api.ClusterProviders.PutClusterProviders(ctx, prod, []string{"p"}, nil)
		wantCode(t, err, cluster.CodeInvalidParameter, "not in an ACTIVE state")
		_, err = s.api.CapacityProviders.UpdateCapacityProvider(ctx, operation.UpdateCapacityProvider{Name: "p"})
		wantCode(t, err, cluster.CodeUpdateInProgress, "busy")
		want(t, "deleted twice", s.deleteProvider(t, "p"), cluster.ProviderDeleting)
		deliver()
		want(t, "status", s.described(t, "p").UpdateStatus, cluster.ProviderDeleted)
	})
	t.Run("ALostWakeUpIsMadeUpForByTheSchedule", func(t *testing.T) {
		s, deliver := newWoken(t)
		s.dispatch.Scaling = &mailbox{err: errors.New("the queue is away")}
		s.attach(t)
		want(t, "status", s.deleteProvider(t, "p"), cluster.ProviderDeleting)
		deliver()
		want(t, "status", s.described(t, "p").UpdateStatus, cluster.ProviderDeleting)
		s.look(t)
		want(t, "status", s.described(t, "p").UpdateStatus, cluster.ProviderDeleted)
	})
}

// Nobody waits for the next minute to see what became of a change of providers.
func TestAPI_WakesManagedScaling(t *testing.T) {
	s, deliver := newWoken(t)
	s.groups["h"] = &cluster.AutoScalingGroup{Name: "h", Max: 10, Protects: true}
	if _, err := s.api.CapacityProviders.CreateCapacityProvider(ctx, providerRow("q", "h")); err != nil {
		t.Fatal(err)
	}
	deliver()
	want(t, "created", s.described(t, "q").UpdateStatus, cluster.ProviderCreated)
	s.attach(t, "p", "q")
	deliver()
	want(t, "attached", s.status(t), cluster.AttachmentsComplete)
	want(t, "alarms", len(s.alarms), 4)
	_, err := s.api.CapacityProviders.UpdateCapacityProvider(ctx,
		operation.UpdateCapacityProvider{Name: "q", Draining: new(false)})
	want(t, "error", err, nil)
	want(t, "attaching again", s.status(t), cluster.AttachmentsInProgress)
	deliver()
	want(t, "attached again", s.status(t), cluster.AttachmentsComplete)
	want(t, "hooks", len(s.hooks), 1)
	s.attach(t, "p")
	deliver()
	want(t, "detached", s.status(t), cluster.AttachmentsComplete)
	wantCount(t, "clusters of the other", s.described(t, "q").Clusters, 0)
}
