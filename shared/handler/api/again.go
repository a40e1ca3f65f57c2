package api

import (
	"context"
	"fmt"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// Created is the service that the same CreateService made before, by its clientToken; nil where none did. It comes before
// all checks: what was made stays made where its task definition has been deregistered or its capacity provider removed
// since. Another CreateService with that token for that name is refused.
func (a *Handler) Created(ctx context.Context, spec operation.CreateService) (*operation.ServiceDetail, error) {
	if spec.Token == "" {
		return nil, nil
	}
	s, err := a.service(ctx, spec.Cluster, spec.Name)
	if err != nil || s == nil || s.Status == cluster.ServiceInactive || s.Token != spec.Token {
		return nil, err
	}
	if s, err = again(s, spec); err != nil {
		return nil, err
	}
	return a.detail(ctx, s)
}

// again answers a CreateService of a name that is taken.
func again(old *cluster.Service, spec operation.CreateService) (*cluster.Service, error) {
	switch {
	case spec.Token != "" && old.Token == spec.Token && old.Params == spec.Params:
		return old, nil
	case old.Status == cluster.ServiceDraining:
		return nil, cluster.Errorf(cluster.CodeInvalidParameter,
			"Unable to Start a service that is still Draining.")
	}
	return nil, cluster.Errorf(cluster.CodeInvalidParameter, "Creation of service was not idempotent.")
}

// Submitted answers a RunTask that was submitted before, by its clientToken, as [API.SubmitTasks] did; found is false where
// none was. As [API.Created] it comes before all checks.
func (a *Handler) Submitted(ctx context.Context, spec operation.SubmitTasks) (tasks []*cluster.Task, failed []cluster.Failure, found bool, err error) {
	r, err := a.submitted(ctx, spec)
	if err != nil || r == nil {
		return nil, nil, false, err
	}
	tasks, failed, err = a.answered(ctx, r)
	return tasks, failed, true, err
}

// submitted is the request that the same clientToken wrote; nil where none did.
func (a *Handler) submitted(ctx context.Context, spec operation.SubmitTasks) (*state.Request, error) {
	if spec.Token == "" {
		return nil, nil
	}
	id := tokenID(spec)
	row, err := a.State.Get(ctx, state.RequestKey(spec.Cluster, id))
	if err != nil {
		return nil, fmt.Errorf("reading request %s: %w", id, err)
	}
	if old, ok := row.(*state.Request); ok && old != nil {
		return sameRequest(old, spec.Params)
	}
	return nil, nil
}

// tokenID is the id of the request that a clientToken writes.
func tokenID(spec operation.SubmitTasks) string {
	return cluster.Digest("token", spec.Cluster, string(spec.Kind), spec.Token)
}

// sameRequest refuses a clientToken that comes with other parameters than before.
func sameRequest(old *state.Request, params string) (*state.Request, error) {
	if old.Params != params {
		return nil, cluster.Errorf(cluster.CodeConflict, "The clientToken was used before with other parameters.")
	}
	return old, nil
}
