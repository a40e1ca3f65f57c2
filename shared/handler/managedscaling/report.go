package managedscaling

import (
	"context"
	"errors"
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

// A clusterReport is how the providers of a cluster fared in one round.
type clusterReport struct {
	failed, unattached []error
	// reasons say why providers are not attached.
	reasons map[string]string
	// isPending reports that the attachments cannot be concluded yet: a group must be checked
	// first, or another environment is at work.
	isPending bool
}

// addOutcome adds the outcome of one provider to the report.
func (h *Handler) addOutcome(r *clusterReport, clusterName, provider string, err error) {
	var reason notAttached
	switch {
	case err == nil:
	case isLostRace(err):
		handler.Logger(h.Log).
			Info("another environment scales this provider at the same time", "cluster", clusterName, "provider",
				provider)
		r.isPending = true
	case errors.As(err, &reason):
		if r.reasons == nil {
			r.reasons = map[string]string{}
		}
		r.unattached, r.reasons[provider] = append(r.unattached, err), reason.Error()
	default:
		r.failed = append(r.failed, err)
	}
}

// isLostRace reports whether another environment works on the provider at the same time. That one
// acts, and records the outcome.
func isLostRace(err error) bool {
	var lost *state.Conflict
	return errors.As(err, &lost)
}

// notAttached is a failure to make or remove what belongs to a provider. Users see it in the
// attachments' status; other failures are not theirs.
type notAttached struct{ error }

func (n notAttached) Unwrap() error { return n.error }

// asNotAttached marks an error as a failure of the attachment; nil stays nil.
func asNotAttached(err error) error {
	if err == nil {
		return nil
	}
	return notAttached{err}
}

// recordAttachmentStatus writes what has become of the attachments, if that has changed: COMPLETE,
// or FAILED with the reasons by provider. Losing a race is harmless: the winner has changed the
// providers, and the next round sees that.
func (h *Handler) recordAttachmentStatus(
	ctx context.Context, of *cluster.ClusterProviders, failed map[string]string,
) error {
	next := *of
	if next.Status, next.AttachmentProblems = cluster.AttachmentsFailed, failed; len(failed) == 0 {
		next.Status, next.Detaching = cluster.AttachmentsComplete, nil
	}
	if next.Status == of.Status && maps.Equal(next.AttachmentProblems, of.AttachmentProblems) &&
		len(next.Detaching) == len(of.Detaching) {
		return nil
	}
	next.Rev++
	_, err := h.State.Write(ctx, state.Write{Put: &next})
	return cluster.Wrap(state.IgnoreConflict(err), "writing the attachments' status")
}

// recordUnreadableGroups records all attachments as failed if the groups cannot be described at all
// and that will not change by itself, for example without permission.
func (h *Handler) recordUnreadableGroups(ctx context.Context, of *cluster.ClusterProviders, err error) error {
	if cluster.PermanentError(err) == nil {
		return nil
	}
	reasons := map[string]string{}
	for _, name := range slices.Concat(of.ScaledProviders(), of.Detaching) {
		reasons[name] = err.Error()
	}
	return h.recordAttachmentStatus(ctx, of, reasons)
}
