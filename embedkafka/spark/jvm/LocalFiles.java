package embedkafka;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** Hadoop's local file system, which sets permissions by itself instead of running `chmod`. */
public class LocalFiles extends LocalFileSystem {

    public LocalFiles() {
        super(new Raw());
    }

    static class Raw extends RawLocalFileSystem {

        @Override
        public void setPermission(Path path, FsPermission permission) throws IOException {
            if (permission.getStickyBit()) { // Java has no name for it
                super.setPermission(path, permission);
                return;
            }
            String symbols =
                    permission.getUserAction().SYMBOL
                            + permission.getGroupAction().SYMBOL
                            + permission.getOtherAction().SYMBOL;
            try {
                Files.setPosixFilePermissions(
                        pathToFile(path).toPath(), PosixFilePermissions.fromString(symbols));
            } catch (UnsupportedOperationException notPosix) {
                super.setPermission(path, permission);
            }
        }
    }
}
