package managedscaling

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

// recoverFromRace is called by a round that could not record what it has made or removed, because of
// err. It returns err, without the lost race if recovering fails.
//
// If another round has written the history meanwhile, the calls of this one may have taken effect
// after that round's, and undone them. So the history is marked incomplete, and the next round makes
// and removes everything again. The mark is written even if the history has one: if the other round
// still runs, that makes it lose its race, and mark the history in turn. remembered is the history as
// this round knows it, with Rev 0 if it knows of none.
func (a *attacher) recoverFromRace(ctx context.Context, remembered *cluster.ScalingHistory, err error) error {
	failed := state.RetryRaces(ctx, a.Clock, "marking the attachments of "+a.provider.Name+" incomplete",
		func() error { return a.markIncomplete(ctx, remembered) })
	switch {
	case failed == nil:
		return err
	case state.IgnoreConflict(err) == nil:
		return failed
	}
	return fmt.Errorf("%w; %w", err, failed)
}

// markIncomplete marks a history that is not the remembered one. If there is none any more, because
// the provider was detached meanwhile, what this round has made is removed.
func (a *attacher) markIncomplete(ctx context.Context, remembered *cluster.ScalingHistory) error {
	now, err := readHistory(ctx, a.State, a.cluster, a.provider.Name)
	if err == nil && now.Rev == 0 && remembered.Rev > 0 {
		if err = a.removeOfDetached(ctx); err == nil { // the cluster may have got the provider again
			now, err = readHistory(ctx, a.State, a.cluster, a.provider.Name)
		}
	}
	if err != nil || now.Rev == 0 || reflect.DeepEqual(now, remembered) {
		return err
	}
	next := *now
	if next.Attachment.Incomplete = true; next.Attachment.Group == "" {
		next.Attachment.Group = a.provider.Group
	}
	return putHistory(ctx, a.State, now, &next)
}

// removeOfDetached removes what this round may have made for a provider that was detached meanwhile.
// The hook stays if the group may belong to another provider or cluster.
func (a *attacher) removeOfDetached(ctx context.Context) error {
	failed := errors.Join(a.attachAlarms(ctx, false), a.attachPolicy(ctx, false))
	use, err := handler.ReadGroupUse(ctx, a.State, a.provider.Group)
	if err != nil || use.Provider != "" && use.Provider != a.provider.Name {
		return errors.Join(failed, err)
	}
	p, err := handler.FindProvider(ctx, a.State, a.provider.Name)
	if err != nil || p != nil && len(p.Clusters) > 0 {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, a.deleteHook(ctx))
}
