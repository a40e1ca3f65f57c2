package dynamo

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"berth/shared/awsapi/outcome"
	"berth/shared/state"
)

// allOld has DynamoDB say what it holds instead, where a condition fails.
const allOld = types.ReturnValuesOnConditionCheckFailureAllOld

// single executes one statement and returns the row after it, nil after a put or a deletion.
func (s *State) single(ctx context.Context, st statement) (item, error) {
	var after item
	err := s.unlessUnknown(ctx, func(ctx context.Context) (err error) {
		switch {
		case st.item != nil:
			err = s.put(ctx, st)
		case st.update != "":
			after, err = s.updateItem(ctx, st)
		default:
			err = s.delete(ctx, st)
		}
		return err
	})
	var refused *types.ConditionalCheckFailedException
	if errors.As(err, &refused) {
		s.usage.refused()
		return nil, st.conflict(refused.Item)
	}
	return after, err
}

func (s *State) put(ctx context.Context, st statement) error {
	out, err := s.Client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &s.Table, Item: st.item, ConditionExpression: orNil(st.condition),
		ExpressionAttributeNames: st.names, ExpressionAttributeValues: st.valuesOrNil(),
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal, ReturnValuesOnConditionCheckFailure: allOld,
	}, once)
	if err == nil {
		s.usage.wrote(out.ConsumedCapacity)
	}
	return err
}

func (s *State) updateItem(ctx context.Context, st statement) (item, error) {
	out, err := s.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &s.Table, Key: keyItem(st.key), UpdateExpression: &st.update, ConditionExpression: orNil(st.condition),
		ExpressionAttributeNames: st.names, ExpressionAttributeValues: st.valuesOrNil(), ReturnValues: types.ReturnValueAllNew,
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal, ReturnValuesOnConditionCheckFailure: allOld,
	}, once)
	if err != nil {
		return nil, err
	}
	s.usage.wrote(out.ConsumedCapacity)
	return out.Attributes, nil
}

func (s *State) delete(ctx context.Context, st statement) error {
	out, err := s.Client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &s.Table, Key: keyItem(st.key), ConditionExpression: orNil(st.condition),
		ExpressionAttributeNames: st.names, ExpressionAttributeValues: st.valuesOrNil(),
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal, ReturnValuesOnConditionCheckFailure: allOld,
	}, once)
	if err == nil {
		s.usage.wrote(out.ConsumedCapacity)
	}
	return err
}

func orNil(expression string) *string {
	if expression == "" {
		return nil
	}
	return &expression
}

func (st statement) valuesOrNil() item {
	if len(st.values) == 0 {
		return nil
	}
	return st.values
}

func (st statement) conflict(there item) error {
	row, err := decodeOrNil(there)
	if err != nil {
		return err
	}
	return &state.Conflict{Key: st.key, Row: row, Version: st.version}
}

// transact executes all statements or none. After an attempt of unknown outcome it sends the same token again, which
// applies the transaction at most once; after a refusal a token has no meaning and a new one is taken.
func (s *State) transact(ctx context.Context, sts []statement) error {
	in := &dynamodb.TransactWriteItemsInput{
		TransactItems: s.transaction(sts), ClientRequestToken: newToken(),
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	}
	if err := ctx.Err(); err != nil {
		return err // nothing was sent
	}
	unknown := false
	err := s.again(ctx, func(ctx context.Context) error {
		out, err := s.Client.TransactWriteItems(ctx, in, once)
		var canceled *types.TransactionCanceledException
		switch {
		case err == nil:
			for i := range out.ConsumedCapacity {
				s.usage.wrote(&out.ConsumedCapacity[i])
			}
			unknown = false
		case errors.As(err, &canceled):
			if conflict := refusedBy(canceled, sts); conflict != nil {
				s.usage.refused()
				unknown = false
				return conflict
			}
		case outcome.Unknown(err):
			unknown = true
		}
		if err != nil && !unknown {
			in.ClientRequestToken = newToken()
		}
		return err
	})
	if err != nil && unknown {
		return ambiguous(err)
	}
	return err
}

func (s *State) transaction(sts []statement) []types.TransactWriteItem {
	items := make([]types.TransactWriteItem, len(sts))
	for i, st := range sts {
		switch {
		case st.item != nil:
			items[i].Put = &types.Put{
				TableName: &s.Table, Item: st.item, ConditionExpression: orNil(st.condition),
				ExpressionAttributeNames: st.names, ExpressionAttributeValues: st.valuesOrNil(),
				ReturnValuesOnConditionCheckFailure: allOld,
			}
		case st.update != "":
			items[i].Update = &types.Update{
				TableName: &s.Table, Key: keyItem(st.key), UpdateExpression: &st.update, ConditionExpression: orNil(st.condition),
				ExpressionAttributeNames: st.names, ExpressionAttributeValues: st.valuesOrNil(),
				ReturnValuesOnConditionCheckFailure: allOld,
			}
		default:
			items[i].Delete = &types.Delete{
				TableName: &s.Table, Key: keyItem(st.key), ConditionExpression: orNil(st.condition),
				ExpressionAttributeNames: st.names, ExpressionAttributeValues: st.valuesOrNil(),
				ReturnValuesOnConditionCheckFailure: allOld,
			}
		}
	}
	return items
}

// refusedBy is the conflict of the first statement whose condition does not hold, nil where none says so. The reasons
// stand in the order of the statements.
func refusedBy(canceled *types.TransactionCanceledException, sts []statement) error {
	for i, r := range canceled.CancellationReasons {
		if i < len(sts) && aws.ToString(r.Code) == "ConditionalCheckFailed" {
			return sts[i].conflict(r.Item)
		}
	}
	return nil
}
