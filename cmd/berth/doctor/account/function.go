package account

import (
	"context"
	"fmt"
	"net/url"

	"berth/cmd/berth/doctor"
)

// readFunctions reads the functions' configurations.
func (r *reader) readFunctions(ctx context.Context, f *doctor.Facts) {
	f.Functions = readEach(f, f.Plan.Functions, func(_, name string) (doctor.Function, error) {
		var out struct {
			State, StateReason, LastUpdateStatus, LastUpdateStatusReason, Role string
			Environment                                                        struct {
				Variables map[string]string
				Error     struct{ ErrorCode, Message string } // instead, where the caller may not use the key
			}
		}
		err := r.getPath(ctx, lambda, "GetFunctionConfiguration",
			"/2015-03-31/functions/"+url.PathEscape(name)+"/configuration", &out)
		if err != nil {
			return doctor.Function{}, err
		}
		var reserved struct{ ReservedConcurrentExecutions *int }
		err = r.getPath(ctx, lambda, "GetFunctionConcurrency",
			"/2019-09-30/functions/"+url.PathEscape(name)+"/concurrency", &reserved)
		var unread error
		if e := out.Environment.Error; e.ErrorCode != "" {
			unread = fmt.Errorf("%s: %s", e.ErrorCode, e.Message)
		}
		return doctor.Function{State: out.State, StateReason: out.StateReason, Update: out.LastUpdateStatus,
			UpdateReason: out.LastUpdateStatusReason, Role: out.Role, Variables: out.Environment.Variables,
			VariablesErr: unread, Reserved: resultOf(reserved.ReservedConcurrentExecutions, err)}, nil
	})
}

// readMappings reads the event source mappings.
func (r *reader) readMappings(ctx context.Context, f *doctor.Facts) {
	f.Mappings = readEach(f, f.Plan.Mappings, func(_, id string) (doctor.Mapping, error) {
		var out struct{ State, StateTransitionReason, LastProcessingResult, EventSourceArn, FunctionArn string }
		err := r.getPath(ctx, lambda, "GetEventSourceMapping", "/2015-03-31/event-source-mappings/"+url.PathEscape(id),
			&out)
		return doctor.Mapping{ID: id, State: out.State, Reason: out.StateTransitionReason,
			LastResult: out.LastProcessingResult, Source: out.EventSourceArn, Function: out.FunctionArn}, err
	})
}

// readLambdaLimits reads the account's limits of functions.
func (r *reader) readLambdaLimits(ctx context.Context, f *doctor.Facts) {
	var out struct {
		AccountLimit struct{ ConcurrentExecutions, UnreservedConcurrentExecutions int }
	}
	err := r.getPath(ctx, lambda, "GetAccountSettings", "/2016-08-19/account-settings", &out)
	f.Lambda = resultOf(doctor.LambdaLimits{Concurrent: out.AccountLimit.ConcurrentExecutions,
		Unreserved: out.AccountLimit.UnreservedConcurrentExecutions}, err)
}

// readTable reads the table, its stream and its time to live.
func (r *reader) readTable(ctx context.Context, f *doctor.Facts) {
	in := map[string]any{"TableName": f.Stack.Resources[f.Plan.Table].ID}
	var out struct {
		Table struct {
			TableStatus, LatestStreamArn string
			StreamSpecification          struct {
				StreamEnabled  bool
				StreamViewType string
			}
		}
	}
	if err := r.callJSON(ctx, dynamoDB, "DescribeTable", in, &out); err != nil {
		f.Table = resultOf(doctor.Table{}, err)
		return
	}
	t := doctor.Table{Status: out.Table.TableStatus, StreamView: out.Table.StreamSpecification.StreamViewType}
	if out.Table.StreamSpecification.StreamEnabled {
		t.StreamARN = out.Table.LatestStreamArn
	}
	var ttl struct {
		TimeToLiveDescription struct{ AttributeName, TimeToLiveStatus string }
	}
	err := r.callJSON(ctx, dynamoDB, "DescribeTimeToLive", in, &ttl)
	t.TTL = resultOf(ttl.TimeToLiveDescription.AttributeName, err)
	if ttl.TimeToLiveDescription.TimeToLiveStatus != "ENABLED" &&
		ttl.TimeToLiveDescription.TimeToLiveStatus != "ENABLING" {
		t.TTL.Got = ""
	}
	f.Table = resultOf(t, nil)
}
