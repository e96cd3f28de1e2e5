package org.apache.spark.sql.ml;

import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Registers the functions of MLlib in Spark 4.0 when one is first used.
 *
 * <p>Spark's class of this name does so in every session, and starts Scala's reflection for it. That
 * work is in its module, which registers its functions in place of ours when it is first touched.
 */
public class InternalFunctionRegistration implements SparkSessionExtensionsProvider {

    private static final String[] NAMES = {
        "vector_to_array", "array_to_vector", "aggregate_metrics"
    };

    @Override
    public BoxedUnit apply(SparkSessionExtensions extensions) {
        for (String name : NAMES) {
            FunctionRegistry$.MODULE$
                    .internal()
                    .createOrReplaceTempFunction(name, new OnFirstUse(name), "internal");
        }
        return BoxedUnit.UNIT;
    }

    public static class OnFirstUse extends AbstractFunction1<Seq<Expression>, Expression> {

        private final String name;

        OnFirstUse(String name) {
            this.name = name;
        }

        @Override
        public Expression apply(Seq<Expression> arguments) {
            InternalFunctionRegistration$.MODULE$.apply();
            return (Expression)
                    FunctionRegistry$.MODULE$
                            .internal()
                            .lookupFunction(new FunctionIdentifier(name), arguments);
        }
    }
}
