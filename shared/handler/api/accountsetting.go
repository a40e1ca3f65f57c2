package api

import (
	"context"
	"maps"

	"berth/shared/cluster"
	"berth/shared/state"
)

// AccountSettings keeps the account settings of this installation, in one row.
type AccountSettings struct{ *Dependencies }

// maxPrincipals is how many principals can have settings of their own: the row stays far below what
// one row may hold.
const maxPrincipals = 100

// AccountSettings returns what was set, by principal and name.
func (a *AccountSettings) AccountSettings(ctx context.Context) (map[string]map[string]string, error) {
	row, err := a.readSettings(ctx)
	if err != nil {
		return nil, err
	}
	return row.Principals, nil
}

func (a *AccountSettings) readSettings(ctx context.Context) (*state.AccountSettings, error) {
	none := &state.AccountSettings{Head: cluster.Head{Cluster: state.Directory}}
	row, err := state.ReadRow[*state.AccountSettings](ctx, a.State, state.KeyOf(none), "the account settings")
	if err == nil && row == nil {
		return none, nil
	}
	return row, err
}

// SetAccountSetting sets a principal's setting; an empty value removes it.
func (a *AccountSettings) SetAccountSetting(ctx context.Context, principal, name, value string) error {
	return a.retryRaces(ctx, "setting "+name, func() error {
		old, err := a.readSettings(ctx)
		if err != nil {
			return err
		}
		if old.Principals[principal][name] == value {
			return nil
		}
		next := &state.AccountSettings{Head: old.Head, Principals: maps.Clone(old.Principals)}
		next.Rev++
		if next.Principals == nil {
			next.Principals = map[string]map[string]string{}
		}
		own := maps.Clone(next.Principals[principal])
		if own == nil {
			own = map[string]string{}
		}
		own[name] = value
		next.Principals[principal] = own
		if value == "" {
			delete(own, name)
		}
		if len(own) == 0 {
			delete(next.Principals, principal)
		}
		if len(next.Principals) > maxPrincipals {
			return cluster.Errorf(cluster.CodeLimitExceeded,
				"%d principals have account settings of their own; more are not possible.", maxPrincipals)
		}
		_, err = a.State.Write(ctx, state.Write{Put: next})
		return err
	})
}
