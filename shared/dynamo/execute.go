package dynamo

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"berth/shared/awsapi/outcome"
	"berth/shared/state"
)

// allOld makes DynamoDB return the item that is there if a condition fails. It saves a read, and is
// the item that the condition was evaluated on.
const allOld = types.ReturnValuesOnConditionCheckFailureAllOld

// executeSingle executes one statement and returns the item after it, nil after a put or a
// deletion.
func (s *State) executeSingle(ctx context.Context, st statement) (item, error) {
	var after item
	err := s.unlessUnknown(ctx, func(ctx context.Context) (err error) {
		switch {
		case st.item != nil:
			err = s.putItem(ctx, st)
		case st.update != "":
			after, err = s.updateItem(ctx, st)
		default:
			err = s.deleteItem(ctx, st)
		}
		return err
	})
	var refused *types.ConditionalCheckFailedException
	if errors.As(err, &refused) {
		s.usage.countRefused()
		return nil, st.conflictOver(refused.Item)
	}
	return after, err
}

// putItem has no answer to decode: the item after it is the one that was put.
func (s *State) putItem(ctx context.Context, st statement) error {
	out, err := s.Client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &s.Table, Item: st.item, ConditionExpression: expressionOrNil(st.condition),
		ExpressionAttributeNames: st.names, ExpressionAttributeValues: st.valuesOrNil(),
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal, ReturnValuesOnConditionCheckFailure: allOld,
	}, disableRetries)
	if err == nil {
		s.usage.countWrite(out.ConsumedCapacity)
	}
	return err
}

// updateItem returns the whole item after the update: the caller needs the row, and this costs
// nothing.
func (s *State) updateItem(ctx context.Context, st statement) (item, error) {
	out, err := s.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &s.Table, Key: st.place(), UpdateExpression: &st.update,
		ConditionExpression:      expressionOrNil(st.condition),
		ExpressionAttributeNames: st.names, ExpressionAttributeValues: st.valuesOrNil(),
		ReturnValues:           types.ReturnValueAllNew,
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal, ReturnValuesOnConditionCheckFailure: allOld,
	}, disableRetries)
	if err != nil {
		return nil, err
	}
	s.usage.countWrite(out.ConsumedCapacity)
	return out.Attributes, nil
}

// deleteItem succeeds if there is no such item, unless the statement has a condition.
func (s *State) deleteItem(ctx context.Context, st statement) error {
	out, err := s.Client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &s.Table, Key: st.place(), ConditionExpression: expressionOrNil(st.condition),
		ExpressionAttributeNames: st.names, ExpressionAttributeValues: st.valuesOrNil(),
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal, ReturnValuesOnConditionCheckFailure: allOld,
	}, disableRetries)
	if err == nil {
		s.usage.countWrite(out.ConsumedCapacity)
	}
	return err
}

// expressionOrNil returns nil for no expression, because DynamoDB refuses an empty one.
func expressionOrNil(expression string) *string {
	if expression == "" {
		return nil
	}
	return &expression
}

// valuesOrNil returns nil for no values, because DynamoDB refuses an empty map.
func (st statement) valuesOrNil() item {
	if len(st.values) == 0 {
		return nil
	}
	return st.values
}

// conflictOver returns the conflict with the item that is there; nil for a row that is absent.
func (st statement) conflictOver(there item) error {
	row, err := decodeOrNil(there)
	if err != nil {
		return err
	}
	return &state.Conflict{Key: st.key, Row: row, Version: st.version}
}

// executeTransaction executes all statements or none. After an attempt of unknown outcome it sends
// the same token again, which applies the transaction at most once (DynamoDB, TransactWriteItems,
// idempotency). After a refusal it takes a new token: the old one would repeat the refusal.
func (s *State) executeTransaction(ctx context.Context, sts []statement) error {
	in := &dynamodb.TransactWriteItemsInput{
		TransactItems: s.transactionItems(sts), ClientRequestToken: newTransactionToken(),
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	}
	if err := ctx.Err(); err != nil {
		return err // nothing was sent
	}
	unknown := false
	err := s.retryRepeatable(ctx, func(ctx context.Context) error {
		out, err := s.Client.TransactWriteItems(ctx, in, disableRetries)
		var canceled *types.TransactionCanceledException
		switch {
		case err == nil:
			for i := range out.ConsumedCapacity {
				s.usage.countWrite(&out.ConsumedCapacity[i])
			}
			unknown = false
		case errors.As(err, &canceled):
			if conflict := firstConflict(canceled, sts); conflict != nil {
				s.usage.countRefused()
				unknown = false
				return conflict
			}
		case outcome.IsUnknown(err):
			unknown = true
		}
		if err != nil && !unknown {
			in.ClientRequestToken = newTransactionToken()
		}
		return err
	})
	if err != nil && unknown {
		return markAmbiguous(err)
	}
	return err
}

// transactionItems returns the statements as the parts of a transaction. Each reports the item that
// is there if its condition fails.
func (s *State) transactionItems(sts []statement) []types.TransactWriteItem {
	items := make([]types.TransactWriteItem, len(sts))
	for i, st := range sts {
		switch {
		case st.item != nil:
			items[i].Put = &types.Put{
				TableName: &s.Table, Item: st.item, ConditionExpression: expressionOrNil(st.condition),
				ExpressionAttributeNames: st.names, ExpressionAttributeValues: st.valuesOrNil(),
				ReturnValuesOnConditionCheckFailure: allOld,
			}
		case st.update != "":
			items[i].Update = &types.Update{
				TableName: &s.Table, Key: st.place(), UpdateExpression: &st.update,
				ConditionExpression:      expressionOrNil(st.condition),
				ExpressionAttributeNames: st.names, ExpressionAttributeValues: st.valuesOrNil(),
				ReturnValuesOnConditionCheckFailure: allOld,
			}
		default:
			items[i].Delete = &types.Delete{
				TableName: &s.Table, Key: st.place(), ConditionExpression: expressionOrNil(st.condition),
				ExpressionAttributeNames: st.names, ExpressionAttributeValues: st.valuesOrNil(),
				ReturnValuesOnConditionCheckFailure: allOld,
			}
		}
	}
	return items
}

// firstConflict returns the conflict of the first statement whose condition does not hold, nil if
// the transaction was canceled for other reasons. The reasons are in the order of the statements.
func firstConflict(canceled *types.TransactionCanceledException, sts []statement) error {
	for i, r := range canceled.CancellationReasons {
		if i < len(sts) && aws.ToString(r.Code) == "ConditionalCheckFailed" {
			return sts[i].conflictOver(r.Item)
		}
	}
	return nil
}

// newTransactionToken returns a token that names one transaction for ten minutes. It must not be
// derived from what is written, because the same decision may rightly be committed twice.
func newTransactionToken() *string {
	return aws.String(rand.Text())
}
