package org.apache.spark.util;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.WritableUtils;

/**
 * Writes a configuration as Spark 4.0 does, and compresses each origin of a property once.
 *
 * <p>Every stateful operator of every batch broadcasts the configuration. Hadoop runs a compressor
 * for each of its thousand properties, on the few names of files and programs that set them.
 */
public class SerializableConfiguration implements Serializable {

    private static final long serialVersionUID = 1L;

    private transient Configuration value;

    public SerializableConfiguration(Configuration value) {
        this.value = value;
    }

    public Configuration value() {
        return value;
    }

    public void value_$eq(Configuration value) {
        this.value = value;
    }

    private void writeObject(ObjectOutputStream out) throws IOException {
        out.defaultWriteObject();
        List<Map.Entry<String, String>> properties = new ArrayList<>();
        value.forEach(properties::add); // the configuration may change after it has told its size
        Map<List<String>, byte[]> written = new HashMap<>();
        WritableUtils.writeVInt(out, properties.size());
        for (Map.Entry<String, String> property : properties) {
            Text.writeString(out, property.getKey());
            Text.writeString(out, property.getValue());
            String[] origins = value.getPropertySources(property.getKey());
            List<String> key = origins == null ? null : Arrays.asList(origins);
            byte[] bytes = written.get(key);
            if (bytes == null) {
                bytes = compressed(origins);
                written.put(key, bytes);
            }
            out.write(bytes);
        }
    }

    private static byte[] compressed(String[] origins) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        WritableUtils.writeCompressedStringArray(new DataOutputStream(bytes), origins);
        return bytes.toByteArray();
    }

    private void readObject(ObjectInputStream in) throws IOException, ClassNotFoundException {
        in.defaultReadObject();
        value = new Configuration(false);
        value.readFields(in);
    }
}
